"""All requests through one machine together, where it is settled who serves which attempt.

Moment by moment: pieces of the process in front, attempts in their replicas' queues, other work (what comes
with requests, and what comes by itself). All that are
in service share the processors; one number, the machine's own time, tells when each of them ends. What needs
no processor (rests, the age at which a copy goes) waits in a second heap, by the moment.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from math import inf, nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken._profile import Floats
from kwiken.queueing._machine import FrontLine, Machine, SharedClock
from kwiken.queueing._race import Attempts
from kwiken.queueing._station import Station

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
# Halves of a call's work in front that each loser costs when the race is over: cutting its connection and
# making another, and sending and reading the question whether its replica lives (decision 16).
AFTER_A_RACE: Final = 3
FRONT: Final = 0  # the seat of the process in front: it does one thing at a time
OTHERS: Final = 1  # the seat of other work: as much at a time as there is
SEND, SERVE, READ, COPY = 0, 1, 2, 3  # what a seat does
GO, CAME = 4, 5  # what is waited for: a copy's age, an answer


@dataclass(frozen=True)
class Settled:
    """What is settled of one stage: n requests, m calls by request, a attempts by call.

    Attributes:
        name: of the stage.
        after: places of its parents among the stages.
        front_ms: work of the process in front for each call; half when it is sent, half when answered.
        places: n * width.
        there: (m,) which of them the calls have.
        first: (n + 1,) where each request's calls begin.
        first_attempt: (m + 1,) where each call's attempts begin; the first of them is its primary.
        age: (a,) of its call when an attempt goes, milliseconds; from when the front began to send it.
        replica: (a,) who serves it; -1 where the stage has no replicas.
        work: (a,) milliseconds of its service; 0 for one that was taken out before.
        rest: (a,) milliseconds after it.
        wins: (a,) whether it answers its call.
        background: (b,), (b,) and (b,): when other work comes to replicas, to which, and how much.
        replicas: how many.
        workers: of each.
    """

    name: str
    after: tuple[int, ...]
    front_ms: float
    places: int
    there: Ints
    first: Ints
    first_attempt: Ints
    age: Floats
    replica: Ints
    work: Floats
    rest: Floats
    wins: Bools
    background: tuple[Floats, Ints, Floats]
    replicas: int
    workers: int


@dataclass(frozen=True)
class StageCalls:
    """Calls of a stage as they went through its queues, by their arrival there; m of them.

    Attributes:
        requests: n.
        places: n * width.
        there: (m,) which of them the calls have.
        sending: (m,) milliseconds before their arrival at which the process in front began to send them.
        answering: (m,) milliseconds of their rest that the process in front took to read their answers.
        passing: (m,) milliseconds of the rest of a copy that it took to send it and to read its answer.
    """

    requests: int
    places: int
    there: Ints
    sending: Floats
    answering: Floats
    passing: Floats


def settled_stage(station: Station, after: Sequence[int], calls: StageCalls, attempts: Attempts) -> Settled:
    """What a turn through the queues has settled of one stage.

    Args:
        station: the stage.
        after: places of its parents among the stages.
        calls: as they were.
        attempts: of these calls.
    """
    order = np.argsort(calls.there, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    own = np.flatnonzero(attempts.call >= 0)
    call = rank[attempts.call[own]]
    by_call = np.argsort(call, kind="stable")  # a primary has the lowest number of its call's
    at, call = own[by_call], call[by_call]
    first = np.searchsorted(
        calls.there[order] // max(1, calls.places // calls.requests), np.arange(calls.requests + 1)
    )
    first_attempt = np.searchsorted(call, np.arange(len(order) + 1))
    came = attempts.came[at]
    primary = first_attempt[call]
    in_front = calls.passing[order][call]  # a copy's; what sent its call came before
    in_front[first_attempt[:-1]] = calls.answering[order]
    others = attempts.call < 0
    return Settled(
        name=station.name,
        after=tuple(after),
        front_ms=station.front_ms,
        places=calls.places,
        there=calls.there[order],
        first=first,
        first_attempt=first_attempt,
        age=came - came[primary] + calls.sending[order][call],
        replica=attempts.replica[at],
        work=attempts.work[at],
        rest=np.maximum(0.0, attempts.rest[at] - in_front),
        wins=attempts.wins[at],
        background=(attempts.came[others], attempts.replica[others], attempts.work[others]),
        replicas=station.replicas or 0,
        workers=station.workers,
    )


def flow(machine: Machine, arrivals: Floats, stages: Sequence[Settled]) -> Machine:
    """Send all requests through the machine.

    Args:
        machine: of what processors, and what else it does.
        arrivals: (n,) when requests come, ascending.
        stages: parents before children.

    Returns:
        What is known of it now.
    """
    return _Flow(machine, arrivals, stages).run()


class _Stage:
    """A stage as lists, since they are read one element at a time. Places count from the stage's own."""

    def __init__(self, settled: Settled, seat: int, requests: int) -> None:
        self.half = settled.front_ms / 2
        self.first = settled.first.tolist()
        self.first_attempt = settled.first_attempt.tolist()
        self.age = settled.age.tolist()
        self.seat = (settled.replica + np.where(settled.replica >= 0, seat, 0)).tolist()
        self.work, self.rest = settled.work.tolist(), settled.rest.tolist()
        self.wins = settled.wins.tolist()
        self.request = np.repeat(np.arange(requests), np.diff(settled.first)).tolist()
        self.call = np.repeat(np.arange(len(settled.there)), np.diff(settled.first_attempt)).tolist()
        self.left = np.diff(settled.first).tolist()
        self.parents = [len(settled.after)] * requests
        self.children: list[_Stage] = []
        calls = len(settled.there)
        self.began = [0.0] * calls  # when each call's visit began, then when its answer came in
        self.starting, self.sending, self.answering = [0.0] * calls, [0.0] * calls, [0.0] * calls
        self.copying = [nan] * calls
        self.due = [0.0] * calls  # moment at which a call's first copy was due

    def is_first_copy(self, attempt: int) -> bool:
        """Whether it is the first that goes after its call's primary."""
        return bool(attempt == self.first_attempt[self.call[attempt]] + 1)


Job = tuple[int, _Stage, int]  # what, of which stage, and the place of the call or attempt


class _Flow:
    """One run."""

    def __init__(self, machine: Machine, arrivals: Floats, stages: Sequence[Settled]) -> None:
        self._machine, self._settled = machine, stages
        firsts = np.cumsum([2, *[stage.replicas for stage in stages]]).tolist()
        self._stages = [
            _Stage(stage, first, len(arrivals)) for stage, first in zip(stages, firsts, strict=False)
        ]
        for stage, settled in zip(self._stages, stages, strict=True):
            for parent in settled.after:
                self._stages[parent].children.append(stage)
        self._sources = [
            stage for stage, settled in zip(self._stages, stages, strict=True) if not settled.after
        ]
        workers = [worker for stage in stages for worker in [stage.workers] * stage.replicas]
        self._free = [1, len(machine.others) + len(arrivals), *workers]
        self._beside = machine.beside_ms
        self._open = [sum(not stage.children for stage in self._stages)] * len(arrivals)
        self._lines: list[deque[tuple[float, Job | None]]] = [deque() for _ in self._free]
        self._processors = machine.processors
        self._ends: list[tuple[float, int, int, Job | None]] = []  # (own time, number, seat, job), a heap
        self._later: list[tuple[float, int, Job]] = []  # (moment, number, what), a heap
        self._starting: deque[tuple[_Stage, int]] = deque()
        self._number = 0
        self._now = self._own = 0.0
        self._pace = 1.0
        self._moments, self._paces = array("d", [0.0]), array("d", [1.0])
        self._sends: deque[tuple[float, Job | None]] = deque()  # the front's, before its line
        self._piece_since = 0.0  # moment at which the front began with what it does, or did last
        self._front_until = 0.0  # own time at which the front has done all that it has to
        self._line_moments, self._line_work = array("d", [0.0]), array("d", [0.0])
        self._coming = self._comers(arrivals, firsts)

    def _comers(self, arrivals: Floats, firsts: Sequence[int]) -> list[tuple[float, int, int, float]]:
        """(moment, request or -1, seat, work) of what comes by itself, the last first."""
        coming = [(moment, request, -1, 0.0) for request, moment in enumerate(arrivals.tolist())]
        piece_ms = self._machine.piece_ms
        coming += [(moment, -1, OTHERS, piece_ms) for moment in self._machine.others.tolist()]
        for settled, first in zip(self._settled, firsts, strict=False):
            moments, replicas, work = (part.tolist() for part in settled.background)
            coming += [
                (moment, -1, first + replica, need)
                for moment, replica, need in zip(moments, replicas, work, strict=True)
            ]
        coming.sort(reverse=True)
        return coming

    def run(self) -> Machine:
        """Until nothing is left to do."""
        while True:
            moment = min(
                self._coming[-1][0] if self._coming else inf, self._later[0][0] if self._later else inf
            )
            if self._ends:
                ended = self._now + (self._ends[0][0] - self._own) / self._pace
                if ended <= moment:
                    self._end(ended)
                    continue
            elif moment == inf:
                return self._found()
            self._own += (moment - self._now) * self._pace
            self._now = moment
            self._happen()

    def _happen(self) -> None:
        """What comes by itself, or was waited for."""
        if self._coming and (not self._later or self._coming[-1][0] <= self._later[0][0]):
            _, request, seat, work = self._coming.pop()
            if request < 0:
                self._seat(seat, work, None)
            else:
                for stage in self._sources:
                    self._start(stage, request)
            return
        _, _, (kind, stage, number) = heappop(self._later)
        if kind == GO:
            if stage.is_first_copy(number):
                stage.due[stage.call[number]] = self._now
            self._by_front(COPY, stage, number)
        else:
            self._by_front(READ, stage, number)

    def _end(self, moment: float) -> None:
        """The next of those in service ends, and the next in its line begins."""
        self._now = moment
        self._own, _, seat, job = self._ends[0]
        if seat == FRONT:
            self._end_in_front(job)
            return
        line = self._lines[seat]
        if line:
            work, next_job = line.popleft()
            self._number += 1
            heapreplace(self._ends, (self._own + work, self._number, seat, next_job))
        else:
            heappop(self._ends)
            self._free[seat] += 1
            self._set_pace()
        if job is not None:
            self._did(*job)

    def _end_in_front(self, job: Job | None) -> None:
        """It sends at once what an answer lets go on: both are one turn of its loop."""
        heappop(self._ends)
        waiting, self._sends = self._sends, deque()
        if job is not None:
            self._did(*job)
        self._sends += waiting
        self._free[FRONT] = 1
        line = self._sends or self._lines[FRONT]
        if line:
            self._seat(FRONT, *line.popleft())
        self._set_pace()

    def _did(self, kind: int, stage: _Stage, number: int) -> None:
        if kind == SEND:
            self._sent(stage, number)
        elif kind == READ:
            self._answered(stage, number)
        elif kind == COPY:
            if stage.is_first_copy(number):
                stage.copying[stage.call[number]] = self._now - stage.due[stage.call[number]]
            self._go(stage, number)
        elif stage.wins[number]:
            self._rest(stage, number)

    def _by_front(self, kind: int, stage: _Stage, number: int) -> None:
        """The process in front is to send a call or a copy, or to read a call's answer, from now on."""
        if kind != COPY:
            stage.began[number] = self._now
        if stage.half:
            self._to_front(stage.half, (kind, stage, number))
        else:
            self._did(kind, stage, number)

    def _to_front(self, work: float, job: Job | None) -> None:
        """The process in front has more to do."""
        self._front_until = max(self._front_until, self._own) + work
        self._line_moments.append(self._now)
        self._line_work.append(self._front_until - self._own)
        self._seat(FRONT, work, job)

    def _seat(self, seat: int, work: float, job: Job | None) -> None:
        """Somebody is to do something."""
        if not self._free[seat]:
            ahead = job is not None and job[0] == SEND  # none but the front sends
            (self._sends if ahead else self._lines[seat]).append((work, job))
            return
        if seat == FRONT:
            self._piece_since = self._now
        self._free[seat] -= 1
        self._number += 1
        heappush(self._ends, (self._own + work, self._number, seat, job))
        self._set_pace()

    def _set_pace(self) -> None:
        busy = len(self._ends)
        pace = self._processors / busy if busy > self._processors else 1.0
        if pace != self._pace:
            self._pace = pace
            self._moments.append(self._now)
            self._paces.append(pace)

    def _wait(self, until: float, what: Job) -> None:
        self._number += 1
        heappush(self._later, (until, self._number, what))

    def _start(self, stage: _Stage, request: int) -> None:
        """A request comes to a stage; one without calls there goes on at once, however many such follow."""
        self._starting.append((stage, request))
        if len(self._starting) > 1:
            return
        while self._starting:
            self._begin(*self._starting[0])
            self._starting.popleft()

    def _begin(self, stage: _Stage, request: int) -> None:
        calls = range(stage.first[request], stage.first[request + 1])
        if not calls:
            self._done(stage, request)
        for call in calls:
            self._by_front(SEND, stage, call)

    def _sent(self, stage: _Stage, call: int) -> None:
        begun = self._piece_since if stage.half else self._now
        stage.starting[call] = begun - stage.began[call]
        stage.sending[call] = self._now - begun
        primary = stage.first_attempt[call]
        self._go(stage, primary)
        for attempt in range(primary + 1, stage.first_attempt[call + 1]):
            self._wait(max(self._now, begun + stage.age[attempt]), (GO, stage, attempt))

    def _go(self, stage: _Stage, attempt: int) -> None:
        """An attempt comes to its replica, if it was ever served."""
        if stage.work[attempt] > 0:
            self._seat(stage.seat[attempt], stage.work[attempt], (SERVE, stage, attempt))
        elif stage.wins[attempt]:
            self._rest(stage, attempt)

    def _rest(self, stage: _Stage, attempt: int) -> None:
        self._wait(self._now + stage.rest[attempt], (CAME, stage, stage.call[attempt]))

    def _answered(self, stage: _Stage, call: int) -> None:
        stage.answering[call] = self._now - stage.began[call]
        losers = stage.first_attempt[call + 1] - stage.first_attempt[call] - 1
        if losers and stage.half:
            self._to_front(stage.half * AFTER_A_RACE * losers, None)
        request = stage.request[call]
        stage.left[request] -= 1
        if not stage.left[request]:
            self._done(stage, request)

    def _done(self, stage: _Stage, request: int) -> None:
        """A request has all of a stage's answers."""
        if not stage.children:
            self._open[request] -= 1
            if self._beside and not self._open[request]:
                self._seat(OTHERS, self._beside, None)
        for child in stage.children:
            child.parents[request] -= 1
            if not child.parents[request]:
                self._start(child, request)

    def _found(self) -> Machine:
        clock = SharedClock(np.asarray(self._moments), np.asarray(self._paces))
        return replace(
            self._machine,
            clock=clock,
            starting=self._by_stage("starting"),
            sending=self._by_stage("sending"),
            answering=self._by_stage("answering"),
            copying=self._by_stage("copying"),
            line=FrontLine(np.asarray(self._line_moments), np.asarray(self._line_work)),
        )

    def _by_stage(self, delays: str) -> dict[str, Floats]:
        """(n * width,) each: delays of one kind."""
        return {
            settled.name: _placed(settled, getattr(stage, delays))
            for settled, stage in zip(self._settled, self._stages, strict=True)
        }


def _placed(settled: Settled, delays: list[float]) -> Floats:
    """(n * width,): 0 where there is no call."""
    placed = np.zeros(settled.places)
    placed[settled.there] = delays
    return placed
