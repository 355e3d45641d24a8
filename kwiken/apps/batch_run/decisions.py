"""Decisions of a run of planned jobs: what is submitted when and where, and what a lost rack changes.

Events in, submissions out; clock and cluster are handed in. Three rules hold:

1. A job is submitted once, when it may start, to the workers of its planned racks.
2. A job whose racks lost the majority of their workers is submitted anew to all workers. No other job is.
3. When a job ends late, jobs that are not submitted yet get racks anew, in the plan's order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwiken.base.errors import InputError
from kwiken.batch.racks.document import PlannedJob, RackPlan

MAJORITY: Final = 0.5  # of the workers of a job's racks that may be lost
LATE: Final = 1.25  # times the planned time after which a job counts as late


@dataclass(frozen=True)
class JobSubmission:
    """A job to be submitted, or submitted anew.

    Attributes:
        racks: names of the racks whose workers it gets; empty for all workers.
        workers: addresses of the workers that its tasks may run on; empty for all.
        priority: rank, the smallest goes first.
        reason: sentence that says why.
        again: whether it runs already and starts anew.
    """

    job: str
    racks: tuple[str, ...]
    workers: tuple[str, ...]
    priority: int
    reason: str
    again: bool = False


@dataclass
class RunDecisions:
    """State of a run.

    Args:
        workers: addresses of the workers of each rack at the start.
        ad_hoc: names of jobs without a plan, which run anywhere after all planned ones.

    Raises:
        InputError: names a rack of the plan that has no worker.
    """

    plan: RackPlan
    workers: Mapping[str, Collection[str]]
    ad_hoc: Sequence[str] = ()
    alive: dict[str, set[str]] = field(init=False)
    running: dict[str, JobSubmission] = field(init=False, default_factory=dict)
    started_s: dict[str, float] = field(init=False, default_factory=dict)
    ended: dict[str, float] = field(init=False, default_factory=dict)
    racks_of: dict[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Check that each rack has a worker."""
        self.alive = {rack: set(self.workers.get(rack, ())) for rack in self.plan.racks}
        for rack, found in self.alive.items():
            if not found:
                known = ", ".join(sorted(self.workers)) or "none"
                raise InputError(
                    f"the plan's rack {rack!r} has no worker; racks with workers: {known}; a worker states "
                    "its rack by --resources rack:NAME=1",
                    where="--dask",
                )
        self.racks_of = {job.name: tuple(job.racks) for job in self.plan.jobs}

    @property
    def left(self) -> int:
        """Number of jobs that have not ended."""
        return len(self.plan.jobs) + len(self.ad_hoc) - len(self.ended)

    def next_due_s(self) -> float | None:
        """Moment of the next arrival, seconds; None when all jobs are submitted."""
        waiting = [job.arrival_s for job in self.plan.jobs if job.name not in self.started_s]
        return min(waiting, default=None)

    def due(self, now_s: float) -> list[JobSubmission]:
        """Jobs to submit now, by priority; jobs without a plan follow at once."""
        found = [
            self._submit(job, now_s)
            for job in self.plan.jobs
            if job.name not in self.started_s and job.arrival_s <= now_s
        ]
        for name in self.ad_hoc:
            if name not in self.started_s:
                submission = JobSubmission(
                    name, (), (), len(self.plan.jobs), "is not in the plan and runs where slots are left"
                )
                self.started_s[name] = now_s
                self.running[name] = submission
                found.append(submission)
        return found

    def _submit(self, job: PlannedJob, now_s: float) -> JobSubmission:
        racks = self.racks_of[job.name]
        self.started_s[job.name] = now_s
        if self._lost(racks):
            found = self._anywhere(job.name, job.priority, again=False)
        else:
            reason = (
                f"has priority {job.priority}, is planned from {job.start_s:.1f} s for {job.took_s:.1f} s"
            )
            found = JobSubmission(job.name, racks, self._workers(racks), job.priority, reason)
        self.running[job.name] = found
        return found

    def _workers(self, racks: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(worker for rack in racks for worker in self.alive[rack]))

    def _lost(self, racks: Sequence[str]) -> bool:
        """Whether the majority of the workers of some racks is lost."""
        before = sum(len(self.workers[rack]) for rack in racks)
        return sum(len(self.alive[rack]) for rack in racks) < (1 - MAJORITY) * before

    def _anywhere(self, name: str, priority: int, *, again: bool) -> JobSubmission:
        racks = ", ".join(self.racks_of[name])
        reason = f"runs on any rack: most workers of {racks} are lost"
        return JobSubmission(name, (), (), priority, reason, again=again)

    def now_alive(self, workers: Collection[str]) -> list[JobSubmission]:
        """Take the workers that answer now; jobs to submit anew because most workers of their racks are lost.

        Args:
            workers: addresses of all workers that answer.
        """
        for rack, known in self.workers.items():
            if rack in self.alive:
                self.alive[rack] = set(known) & set(workers)
        found = []
        for name, submission in list(self.running.items()):
            if submission.racks and self._lost(submission.racks):
                again = self._anywhere(name, submission.priority, again=True)
                self.running[name] = again
                found.append(again)
        return found

    def job_ended(self, name: str, now_s: float) -> list[str]:
        """Take the end of a job; sentences on what changes for later jobs."""
        self.running.pop(name, None)
        self.ended[name] = now_s
        job = next((each for each in self.plan.jobs if each.name == name), None)
        if job is None or now_s <= job.start_s + LATE * job.took_s:
            return []
        return self._plan_again(name, now_s - job.start_s - job.took_s, now_s)

    def _plan_again(self, late: str, by_s: float, now_s: float) -> list[str]:
        """Choose racks anew for jobs that are not submitted: the racks that are expected to be free first."""
        planned = {job.name: job for job in self.plan.jobs}
        free = {rack: now_s for rack in self.plan.racks if self.alive[rack]}
        for name, submission in self.running.items():
            if name in planned:
                end_s = max(now_s, self.started_s[name] + planned[name].took_s)
                for rack in submission.racks or tuple(free):
                    if rack in free:
                        free[rack] = max(free[rack], end_s)
        changed = []
        waiting = [job for job in self.plan.jobs if job.name not in self.started_s]
        if not waiting or not free:
            return []
        for job in waiting:
            chosen = tuple(sorted(sorted(free, key=lambda rack: (free[rack], rack))[: len(job.racks)]))
            start_s = max(job.arrival_s, *(free[rack] for rack in chosen))
            for rack in chosen:
                free[rack] = start_s + job.took_s
            if chosen != self.racks_of[job.name]:
                self.racks_of[job.name] = chosen
                changed.append(f"{job.name} to {', '.join(chosen)}")
        line = f"{late} ended {by_s:.1f} s late"
        if changed:
            return [f"{line}: planned again, {'; '.join(changed)}"]
        return [f"{line}: planned again, no job that is not submitted moves"]
