"""Queue of batch jobs on the nodes of a cluster: lines by quality over the room that the ledger has. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kwiken.allocator.adaptation.job_room import NodeRoom
from kwiken.allocator.waiting.budgets import waiting_budget_s
from kwiken.allocator.waiting.distributions import BusyTime
from kwiken.allocator.waiting.lines import WaitingLines
from kwiken.allocator.waiting.quality_classes import QualityClasses, equal_classes
from kwiken.allocator.waiting.settings import (
    BudgetClock,
    LineMove,
    LineSettings,
    LineStart,
    SlotOffer,
    WaitingJob,
)
from kwiken.runtime.cluster.state.jobs.documents import JobOrder

LOSS: Final = 0.05  # of the time of its work by which a job may be late that states no wait (ARQ, 2.1)
SETTINGS: Final = LineSettings(clock=BudgetClock.ARRIVAL)
STEP: Final = 0.05  # cores that are told apart
STEPS: Final = 8  # of the time within which cores may become free twice
MAX_SLOTS: Final = 1_000  # of one node


class Room(Protocol):
    """Room for jobs on nodes; see `JobRoom`."""

    def rooms(self) -> list[NodeRoom]:
        """Room of every node that has some."""
        ...

    def speed(self, node: str) -> float:
        """Speed of a node as a share of the fastest one's."""
        ...

    def could_hold(self, cores: float, memory_gb: float) -> bool:
        """Whether any node, were it empty, had as many cores and as much memory."""
        ...

    def suits(self, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> bool:
        """Whether a node has room for a job whose pressure its residents bear."""
        ...

    def take(self, job: str, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> None:
        """Draw room for a job."""
        ...

    def release(self, job: str) -> None:
        """Give back what a job drew."""
        ...


@dataclass(frozen=True)
class HeldJob:
    """A job that runs.

    Attributes:
        pool: pool of its node when it started.
        started_s: moment of its start, seconds.
    """

    order: JobOrder
    node: str
    pool: int
    started_s: float


class JobQueue:
    """Jobs that wait and run; the room is taken here, and the processes are the caller's.

    Args:
        room: room on the nodes, from which jobs draw.
        classes: classes of quality, one line for each; None for ten of equal width.

    Attributes:
        waiting: orders of the jobs that wait, by name.
        running: jobs that run, by name.
    """

    def __init__(self, room: Room, classes: QualityClasses | None = None) -> None:
        self._room = room
        self.classes = equal_classes() if classes is None else classes
        self.lines = WaitingLines(self.classes, SETTINGS)
        self.waiting: dict[str, JobOrder] = {}
        self.running: dict[str, HeldJob] = {}
        self._units: dict[str, tuple[float, int]] = {}  # quality and slots by node
        self._told: dict[str, int] = {}  # moves of a waiting job that were returned
        self._least: float | None = None  # as `_least_cores`, where it is known
        self._now_s = -math.inf

    # What happens outside

    def arrive(self, order: JobOrder, now_s: float) -> int:
        """Put a job into the line of its quality; returns the number of the line.

        Args:
            now_s: moment of its arrival, in seconds.

        Raises:
            InputError: it waits or runs already.
        """
        line = self.lines.arrive(_waiting_job(order), self._at(now_s))
        self.waiting[order.name] = order
        if self._least is not None:
            self._least = min(self._least, order.cores) if len(self.waiting) > 1 else order.cores
        self._refresh(self._now_s)
        return line

    def resume(self, order: JobOrder, node: str, pool: int, started_s: float) -> None:
        """Note a job that runs already.

        Args:
            pool: pool of the node when the job started.
            started_s: moment of its start, in seconds.
        """
        self.lines.resumed(order.name, node, pool, started_s)
        self._room.take(order.name, node, order.cores, order.memory_gb, order.caused)
        self.running[order.name] = HeldJob(order, node, pool, started_s)
        self._least = None

    def ended(self, job: str, now_s: float) -> None:
        """Note the end of a job that ran; its room is given back.

        Args:
            now_s: moment, in seconds.
        """
        held = self._release(job)
        offers = {room.node: room for room in self._room.rooms()}
        room = offers.get(held.node)
        quality, slots = _offer(room, self._least_cores()) if room is not None else (0.0, 0)
        self.lines.ended(job, self._at(now_s), quality=quality, free=slots)
        if room is None:
            self.lines.withdraw_unit(held.node)
            self._units.pop(held.node, None)
        else:
            self._units[held.node] = quality, slots

    def lost(self, job: str, now_s: float) -> None:
        """Note that a job is gone without a result, such as with its node.

        Args:
            now_s: moment, in seconds.
        """
        self._release(job)
        self.lines.lost(job, self._at(now_s))

    def cancel(self, job: str) -> None:
        """Take a job that waits out of its line."""
        del self.waiting[job]
        self._least = None
        self._told.pop(job, None)
        self.lines.withdraw(job)

    def learn(self, pool: int, busy_s: float, ended_s: float) -> None:
        """Count the time of a job that ended before this program started.

        Args:
            pool: pool of its node when it started.
            busy_s: time for which it ran, in seconds.
            ended_s: moment of its end, in seconds.
        """
        if 0 <= pool < self.classes.count:
            self.lines.times.ended(pool, busy_s, ended_s, pool)

    def _release(self, job: str) -> HeldJob:
        held = self.running.pop(job)
        self._least = None
        self._room.release(job)
        return held

    # What is decided

    def advance(self, now_s: float) -> tuple[list[LineStart], list[LineMove]]:
        """Start and move what may be at this moment; returns starts and moves.

        The room of the started jobs is taken.

        Args:
            now_s: moment, in seconds.
        """
        now_s = self._at(now_s)
        self._refresh(now_s)
        starts = list(self.lines.advance(now_s, self._find))
        moves: list[LineMove] = []
        for start in starts:
            order = self.waiting.pop(start.job)
            self._least = None
            self.running[start.job] = HeldJob(order, start.unit, start.pool, now_s)
            moves += start.moves[self._told.pop(start.job, 0) :]
        for job in self.waiting:
            made = self.lines.moves_of(job)
            moves += made[self._told.get(job, 0) :]
            self._told[job] = len(made)
        return starts, moves

    def _refresh(self, now_s: float) -> None:
        """Tell the lines what the nodes offer, where that has changed."""
        least = self._least_cores()
        offers = {room.node: _offer(room, least) for room in self._room.rooms()}
        for node in [node for node in self._units if node not in offers]:
            self.lines.withdraw_unit(node)
            del self._units[node]
        for node, offer in offers.items():
            if self._units.get(node) != offer:
                self._units[node] = offer
                self.lines.unit(node, *offer, now_s)

    def _least_cores(self) -> float:
        """Number of cores of the smallest job that waits; of the smallest that runs where none waits."""
        if self._least is None:
            orders = self.waiting.values() or [held.order for held in self.running.values()]
            self._least = min((order.cores for order in orders), default=1.0)
        return self._least

    def _find(self, job: WaitingJob, pool: int | None) -> SlotOffer | None:
        """Node of a pool for a job: the fastest that suits, then the one that it fills best."""
        order = self.waiting[job.name]
        suitable = [
            room
            for room in self._room.rooms()
            if room.node in self._units
            and self._units[room.node][1] > 0
            and (pool is None or self.classes.of(self._units[room.node][0]) == pool)
            and self._room.suits(room.node, order.cores, order.memory_gb, order.caused)
        ]
        if not suitable:
            return None
        chosen = min(suitable, key=lambda room: (-self._room.speed(room.node), room.cores, room.node))
        self._room.take(order.name, chosen.node, order.cores, order.memory_gb, order.caused)
        after = next((room for room in self._room.rooms() if room.node == chosen.node), None)
        quality, slots = _offer(after, self._least_cores()) if after is not None else (0.0, 0)
        self._units[chosen.node] = quality, slots
        return SlotOffer(chosen.node, quality, slots)

    # What is known

    def places(self) -> dict[str, tuple[int, int]]:
        """Line of each job that waits, and its place there, from 1."""
        return {
            job: (line.number, place)
            for line in self.lines.state()
            for place, job in enumerate(line.waiting, start=1)
        }

    def rest_s(self, job: str, arrived_s: float, now_s: float) -> float:
        """Time until a job takes any node, in seconds; 0 from then on.

        Args:
            arrived_s: moment of its arrival, in seconds.
            now_s: moment, in seconds.
        """
        return max(0.0, _budget_s(self.waiting[job]) - (now_s - arrived_s))

    def chance(self, job: str, within_s: float, rest_s: float) -> float | None:
        """Probability that a job gets a node within some time; None while no job has ended to learn from.

        A job gets a node where enough cores are free or become free, in a pool that it may use: that of its
        line, those above up to the first line in which others wait, and all of them once its wait is spent.
        Jobs before it in its line go first; each is taken to need as many cores as the job itself. Cores that
        one of them takes may become free again.

        Args:
            job: name of a job that waits.
            within_s: time from now on, in seconds, 0 or more.
            rest_s: time until it takes any node, in seconds.
        """
        number = self.lines.line_of(job)
        place = self.lines.place_of(job)
        top = number
        while top > 0 and not self.lines.length(top - 1):
            top -= 1
        pools = range(self.classes.count) if rest_s <= within_s else range(top, number + 1)
        rooms = {room.node: room for room in self._room.rooms()}
        held: dict[str, list[tuple[float, float, float]]] = {}  # by node
        for one in self.running.values():
            busy = self.lines.times.fit(one.pool)
            if busy is not None:
                lands = sum(self.lines.times.landing(one.pool, pool) for pool in pools)
                once, twice = _releases(busy, self._now_s - one.started_s, within_s)
                held.setdefault(one.node, []).append((one.order.cores, lands * once, lands * twice))
        usable = {node for node, (quality, _) in self._units.items() if self.classes.of(quality) in pools}
        unknown = bool(self.running) and not held
        cores, fewer = self.waiting[job].cores, [1.0]
        for node in held.keys() | (rooms.keys() & usable):
            room = rooms.get(node)
            free = room.cores if room is not None and node in usable else 0.0
            fewer = _sums(fewer, _openings(free, held.get(node, ()), cores, place), place)
        chance = max(0.0, 1.0 - math.fsum(fewer))
        return None if unknown and chance < 1.0 else chance

    def _at(self, now_s: float) -> float:
        """Moment that is not before an earlier one: the clock of the system may be set back."""
        self._now_s = max(self._now_s, now_s)
        return self._now_s


def _offer(room: NodeRoom, least: float) -> tuple[float, int]:
    """Quality of a node, and how many jobs of the fewest cores it has room for."""
    return room.quality, min(MAX_SLOTS, int(room.cores / least + 1e-9))


def _releases(busy: BusyTime, age_s: float, within_s: float) -> tuple[float, float]:
    """Probability that a job ends within some time, and that another one in its place does as well."""
    twice, before = 0.0, 0.0
    for step in range(1, STEPS + 1):
        ended = busy.within(age_s, within_s * step / STEPS)
        twice += (ended - before) * busy.within(0.0, within_s * (1.0 - (step - 0.5) / STEPS))
        before = ended
    return before, twice


def _openings(
    free: float, held: Iterable[tuple[float, float, float]], cores: float, most: int
) -> list[float]:
    """Probability that a node has room for each number of jobs of one size: 0, 1 and so on.

    Args:
        free: number of cores that are free now.
        held: cores of each job that runs there, and the probability that they become free, and free again.
        cores: number of cores of one job.
        most: number of jobs from which on it does not matter how many more have room.
    """
    sums = {round(free / STEP): 1.0}  # by free cores in steps
    for freed, once, twice in held:
        after: dict[int, float] = {}
        for steps, share in sums.items():
            for times, chance in enumerate((1.0 - once, once - twice, twice)):
                more = steps + times * round(freed / STEP)
                after[more] = after.get(more, 0.0) + share * chance
        sums = after
    shares = {int(steps * STEP / cores + 1e-6): 0.0 for steps in sums}
    for steps, share in sums.items():
        shares[int(steps * STEP / cores + 1e-6)] += share
    return [shares.get(count, 0.0) for count in range(min(most, max(shares) + 1))]


def _sums(one: Sequence[float], other: Sequence[float], most: int) -> list[float]:
    """Probability of each sum of two independent counts, for the sums below some number."""
    found = [0.0] * min(most, len(one) + len(other) - 1)
    for left, share in enumerate(one):
        for right in range(min(len(other), len(found) - left)):
            found[left + right] += share * other[right]
    return found


def _budget_s(order: JobOrder) -> float:
    """Time that a job may wait: as stated, else what its work allows, else the patience of the lines."""
    if order.wait_s is not None:
        return order.wait_s
    if order.takes_s is not None:
        return waiting_budget_s(order.takes_s, LOSS)
    return SETTINGS.patience_s


def _waiting_job(order: JobOrder) -> WaitingJob:
    return WaitingJob(
        name=order.name,
        quality=order.quality,
        budget_s=_budget_s(order),
        work_s=order.takes_s or 0.0,
        priority=order.priority,
    )
