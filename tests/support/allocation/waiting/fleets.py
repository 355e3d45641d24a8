"""A small set of nodes behind waiting lines, which checks at each step that no job is lost or started twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from papers.worlds.waiting.lines.lines import WaitingLines
from papers.worlds.waiting.lines.settings import LineStart, SlotOffer, WaitingJob


@dataclass
class LinedNodes:
    """Nodes with slots; a node's quality falls with each job on it.

    Attributes:
        slots: number of slots of each node, by its name.
        quality: quality of each node without jobs, from 0 to 100.
    """

    lines: WaitingLines
    slots: dict[str, int]
    quality: dict[str, float]
    on: dict[str, str] = field(default_factory=dict)
    submitted: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    started: list[LineStart] = field(default_factory=list)

    def offer(self, name: str) -> tuple[float, int]:
        """Quality and free slots of a node now."""
        held = sum(unit == name for unit in self.on.values())
        free = self.slots[name] - held
        return self.quality[name] * free / self.slots[name], free

    def open(self, now_s: float) -> None:
        """Report every node."""
        for name in self.slots:
            self.lines.unit(name, *self.offer(name), now_s)

    def submit(self, job: WaitingJob, now_s: float) -> None:
        """Put a job into its line."""
        self.lines.arrive(job, now_s)
        self.submitted.add(job.name)

    def find(self, job: WaitingJob, pool: int | None) -> SlotOffer | None:
        """The first node of a pool."""
        assert job.name not in self.on
        assert job.name not in self.finished
        for state in self.lines.state():
            if pool in {None, state.number} and state.units:
                name = state.units[0]
                self.on[job.name] = name
                return SlotOffer(name, *self.offer(name))
        return None

    def step(self, now_s: float) -> tuple[LineStart, ...]:
        """Advance the lines and check that nothing is lost."""
        starts = self.lines.advance(now_s, self.find)
        self.started += starts
        self.check()
        return starts

    def end(self, job: str, now_s: float) -> None:
        """End a job that runs."""
        name = self.on.pop(job)
        self.finished.add(job)
        quality, free = self.offer(name)
        self.lines.ended(job, now_s, quality=quality, free=free)
        self.check()

    def finish(self, now_s: float) -> None:
        """Let every job start and end."""
        while self.on or self.lines.waiting:
            now_s += 4000.0
            for name in sorted(self.on):
                self.end(name, now_s)
            self.step(now_s)

    def check(self) -> None:
        """Submitted jobs wait, run or have ended, each once; no node holds more jobs than it has slots."""
        waiting = [name for state in self.lines.state() for name in state.waiting]
        assert len(waiting) == len(set(waiting)) == self.lines.waiting
        assert {*waiting, *self.on, *self.finished} == self.submitted
        assert len(waiting) + len(self.on) + len(self.finished) == len(self.submitted)
        assert self.lines.running == len(self.on)
        names = [start.job for start in self.started]
        assert len(names) == len(set(names))
        for name in self.slots:
            assert self.offer(name)[1] >= 0
