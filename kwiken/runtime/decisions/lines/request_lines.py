"""Lines of requests by kind: which request starts next, so that heavy kinds do not hold up light ones.

Shortest first, with a guard for the long (ARQ, section 2.8). The heads of the lines are compared by their
arrivals, to which a heavier kind adds a handicap: a light request passes a heavy one that arrived within that
time before, and nobody passes a request that has waited longer. A level of priority counts as a fixed time of
earlier arrival.

The lines conserve work: while fewer requests run than the replicas can work on at once, nobody waits. How
many those are is learned (`ConcurrencyLearner`). Pure: arrivals, ends and their times in, starts out.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import Final

import msgspec

from kwiken.model.service.request_kinds import OTHER
from kwiken.runtime.decisions.lines.concurrency import ConcurrencyLearner

MAX_KINDS: Final = 32  # lines; further kinds share the line of `OTHER`
SECONDS_PER_LEVEL: Final = (
    1.0  # earlier arrival that one level of priority is worth, here and at the replicas
)
WAIT_SHARE: Final = 0.8  # of the time that a request may take, which it may spend in a line
GUARD_WAITS: Final = 4.0  # mean waits of the heaviest kind that make the handicap of the heaviest kind
GUARD_SHARE: Final = 0.5  # of the longest wait that a request may bear, which bounds its handicap
WAIT_GAIN: Final = 0.02  # weight of one request in the mean wait of its kind


class Ticket(msgspec.Struct, eq=False):
    """Request in a line, or running.

    Attributes:
        kind: kind of the request, as its line is named.
        arrived_s: moment of the arrival, seconds.
        budget_s: longest time that the request may wait, seconds.
        rank: order within the line: the lowest starts first.
        started_s: moment of the start, seconds; None while the request waits.
        number: number of requests that ran at the start, with this one.
        given_up: whether the request left the line without being started.
    """

    kind: str
    arrived_s: float
    budget_s: float
    rank: float
    started_s: float | None = None
    number: int = 0
    given_up: bool = False

    @property
    def wait_s(self) -> float:
        """Time from the arrival to the start, seconds; 0 for a request that waits."""
        return self.started_s - self.arrived_s if self.started_s is not None else 0.0

    @property
    def has_started(self) -> bool:
        """Whether the request was started."""
        return self.started_s is not None


class KindLine:
    """Requests of one kind.

    Attributes:
        waiting: number of requests that wait.
        running: number of requests that run.
        started: requests that were started so far.
        waited: requests that had to wait for their start.
        turned_away: requests that left the line because they had waited too long.
        left: requests that left the line because their callers gave up.
        mean_wait_s: mean wait of recent requests, seconds; those that did not have to wait are counted.
    """

    __slots__ = (
        "heap",
        "left",
        "mean_wait_s",
        "running",
        "started",
        "turned_away",
        "waited",
        "waiting",
    )

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Ticket]] = []
        self.waiting = 0
        self.running = 0
        self.started = 0
        self.waited = 0
        self.turned_away = 0
        self.left = 0
        self.mean_wait_s = 0.0

    @property
    def head(self) -> Ticket | None:
        """Request that starts next of this line; None for none."""
        while self.heap and self.heap[0][2].given_up:
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None


class RequestLines:
    """Lines of all kinds, and the requests that run.

    Attributes:
        lines: line of each kind, in the order of their first requests.
        learner: learns service times and the number of requests to run at once.
        running: number of requests that run.
    """

    def __init__(self) -> None:
        self.lines: dict[str, KindLine] = {}
        self.learner = ConcurrencyLearner()
        self.running = 0
        self.waiting = 0
        self._arrivals = 0

    def arrive(self, kind: str, now_s: float, *, allowed_s: float, priority: int = 0) -> Ticket:
        """Take in a request, which then waits; call `start_next` until None comes.

        Args:
            kind: kind of the request; one too many counts as `OTHER`.
            now_s: present time, seconds.
            allowed_s: time that the request may take, seconds.
            priority: priority of the request; higher is more urgent.
        """
        if kind not in self.lines:
            kind = kind if len(self.lines) < MAX_KINDS - 1 else OTHER
        line = self.lines.setdefault(kind, KindLine())
        ticket = Ticket(kind, now_s, WAIT_SHARE * allowed_s, now_s - SECONDS_PER_LEVEL * priority)
        self._arrivals += 1
        heapq.heappush(line.heap, (ticket.rank, self._arrivals, ticket))
        line.waiting += 1
        self.waiting += 1
        return ticket

    def start_next(self, now_s: float) -> Ticket | None:
        """Start a request if there is one and one more may run; returns the request.

        Args:
            now_s: present time, seconds.
        """
        if not self.waiting or self.running >= self.learner.limit:
            return None
        guard_s = GUARD_WAITS * max(line.mean_wait_s for line in self.lines.values())
        service_s = self.learner.service_s
        least_s = min(service_s.values(), default=0.0)
        chosen, best = None, inf
        for kind, line in self.lines.items():
            head = line.head
            if head is None:
                continue
            rank = head.rank
            if own_s := service_s.get(kind):
                rank += min(guard_s, GUARD_SHARE * head.budget_s) * (1.0 - least_s / own_s)
            if rank < best:
                chosen, best = line, rank
        assert chosen is not None, "some line has a head while requests wait"
        ticket = heapq.heappop(chosen.heap)[2]
        self._start(chosen, ticket, now_s)
        return ticket

    def _start(self, line: KindLine, ticket: Ticket, now_s: float) -> None:
        wait_s = now_s - ticket.arrived_s
        line.waiting -= 1
        self.waiting -= 1
        line.running += 1
        self.running += 1
        line.started += 1
        line.mean_wait_s += WAIT_GAIN * (wait_s - line.mean_wait_s)
        line.waited += wait_s > 0
        ticket.started_s = now_s
        ticket.number = self.running

    def give_up(self, ticket: Ticket, *, too_long: bool) -> None:
        """Take a request that waits out of its line.

        Args:
            too_long: whether the request had waited too long; else its caller gave up.
        """
        assert ticket.started_s is None, "the request runs"
        assert not ticket.given_up, "the request has left"
        ticket.given_up = True
        line = self.lines[ticket.kind]
        line.waiting -= 1
        self.waiting -= 1
        if too_long:
            line.turned_away += 1
        else:
            line.left += 1

    def end(self, ticket: Ticket, now_s: float, *, served: bool) -> None:
        """Record the end of a request that ran.

        Args:
            now_s: present time, seconds.
            served: whether the request was answered, so that its time tells of its kind.
        """
        assert ticket.started_s is not None, "the request has not started"
        self.lines[ticket.kind].running -= 1
        self.running -= 1
        if served:
            self.learner.ended(ticket.kind, ticket.number, now_s - ticket.started_s)
