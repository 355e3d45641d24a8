"""Event simulation of one stage: its calls, queues and copies.

There are four kinds of event: 1. calls arrive; 2. first time-outs pass; 3. watched attempts are answered; 4.
calls ask for another copy. Arrivals are sorted beforehand. First time-outs pass in the same order and matter
only for calls that were not certain to be answered by then at arrival. Only races, the few calls with a copy,
need a heap. A call that is answered in time costs its place in a queue and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, nextafter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Floats
from kwiken.errors import InputError
from kwiken.queueing.simulator.copy_budget import CopyBudget
from kwiken.queueing.simulator.fifo import FifoReplicas
from kwiken.queueing.simulator.replica_scores import Estimates
from kwiken.queueing.simulator.station import Dispatch, Station

Ints = NDArray[np.int64]
Copies = Callable[[float], tuple[float, float]]  # work and rest of a copy, given the rest of its call
CHECK_ANSWER: Final = 0  # event: an attempt should have been answered
NEXT_COPY: Final = 1  # event: a call may have another copy
EARNS: Final = 1  # role of a call: its time-out matters to the account only
MAY_COPY: Final = 2  # role of a call: it may have a copy
DRAWS_PER_BATCH: Final = 512  # uniform numbers drawn at once
MAX_QUEUED_CALLS: Final = 1024  # calls at a copy's replica beyond which the stage counts as overloaded


class OverloadError(InputError):
    """A stage that cannot serve its copies: its queues would grow without bound."""


@dataclass(frozen=True)
class Calls:
    """Primary calls of one stage, in the order of arrival.

    Attributes:
        arrival: (m,) arrival times, milliseconds, ascending.
        work: (m,) times that the calls occupy their replicas, milliseconds.
        rest: (m,) times that the calls take besides, milliseconds.
        pinned: (m,) index of the replica of a background call; -1 for a call of the stage.
    """

    arrival: Floats
    work: Floats
    rest: Floats
    pinned: Ints

    @property
    def count(self) -> int:
        """Number of calls."""
        return len(self.arrival)


@dataclass(frozen=True)
class Served:
    """Outcome of the calls of one stage.

    Attributes:
        latency_ms: (m,) time from arrival to the first answer.
        replica: (m,) index of the replica of the first attempt.
        copies: (m,) number of copies sent.
        worked_ms: (replicas,) work done, copies and background included.
        extra_ms: work caused by copies: work of all attempts less the work of first ones.
    """

    latency_ms: Floats
    replica: Ints
    copies: Ints
    worked_ms: Floats
    extra_ms: float


class QueueRace:
    """Event simulation of one stage.

    Args:
        station: the stage with its replicas and rules.
        calls: primary calls of the stage.
        copies: function that draws work and rest of a copy.
        rng: source of randomness for replicas and for which calls may have copies.
    """

    def __init__(
        self,
        station: Station,
        calls: Calls,
        copies: Copies,
        rng: np.random.Generator,
    ) -> None:
        assert station.replicas is not None
        self._count = station.replicas
        self._estimates = Estimates(self._count) if station.dispatch == "aged" else None
        self._arrival: list[float] = calls.arrival.tolist()
        own = calls.pinned < 0
        self._replicas = FifoReplicas(
            self._count,
            self._arrival,
            estimates=self._estimates,
            unheard=frozenset(np.flatnonzero(~own).tolist()),
        )
        self._name = station.name
        self._dispatch = station.dispatch
        self._cancel = station.cancel
        self._reissue = station.reissue if self._count > 1 else None
        self._given = calls
        self._rest: list[float] = calls.rest.tolist()  # by attempt
        self._copies = copies
        self._places = _places(calls.pinned, self._count, station.dispatch, rng)
        earnings = station.earnings
        self._account = CopyBudget(earnings, calls.arrival[own]) if earnings is not None else None
        self._prompt_earn = self._account if earnings is not None and earnings.prompt_only else None
        self._roles = self._roles_of(own, rng)
        self._late: deque[tuple[float, int]] = deque()  # (time-out, call) of those that may need a copy then
        self._turns = turns(rng)
        self._events: list[tuple[float, int, int]] = []  # (moment, what, call or attempt), a heap
        self._attempts: dict[int, list[int]] = {}  # by call in a race
        self._owner: list[int] = []  # by copy: its call
        self._answered: dict[int, float] = {}  # by call that had a copy: when

    def run(self) -> Served:
        """Simulate all calls."""
        place, score, until = self._replicas.place, self._replicas.score, self._until
        least = self._least if self._dispatch == "least" else None
        given, late = self._given, self._late
        each = zip(
            self._arrival, given.work.tolist(), self._rest.copy(), *self._places, self._roles, strict=True
        )
        after = self._reissue.after_ms if self._reissue is not None else inf
        prompt = self._prompt_earn
        upcoming = inf
        for call, (now, need, rest, one, other, role) in enumerate(each):
            if upcoming <= now:
                upcoming = until(now)
            replica = one
            if one != other:
                if least is not None:
                    replica = least(one, now)
                elif score(one, now) > score(other, now):
                    replica = other
            answer = place(call, replica, need, rest, now)
            if role:
                due = now + after
                if answer > due:
                    late.append((due, call))
                    upcoming = min(upcoming, due)
                elif prompt is not None:
                    prompt.earn_at(due)
        until(inf)
        return self._served()

    def _roles_of(self, own: NDArray[np.bool_], rng: np.random.Generator) -> bytes:
        """Role of each call at its first time-out: 0 for none, `EARNS` or `MAY_COPY`."""
        if self._reissue is None:
            return bytes(len(own))
        may = own
        if self._reissue.probability < 1:  # one draw a call, as in the runtime
            may = own & (rng.random(len(own)) < self._reissue.probability)
        earns = own if self._prompt_earn is not None else may
        return np.where(may, MAY_COPY, np.where(earns, EARNS, 0)).astype(np.uint8).tobytes()

    def _until(self, now: float) -> float:
        """Process all events before `now`, and answers of races at that very moment.

        Returns:
            Time of the next event.
        """
        events, late = self._events, self._late
        while True:
            due = late[0][0] if late else inf
            if events and events[0][0] <= due:
                moment = events[0][0]
                if moment > now or moment == inf:
                    return moment
                _, what, number = heappop(events)
                if what == CHECK_ANSWER:
                    self._watched(number, moment)
                else:
                    self._again(number, moment)
            elif due < now:
                self._time_out(late.popleft()[1], due)
            else:
                return due

    def _time_out(self, call: int, now: float) -> None:
        """Process the first time-out of a call that was expected to be late."""
        if self._answered_by(call, now):
            if self._prompt_earn is not None:
                self._prompt_earn.earn(now)
        elif self._roles[call] == MAY_COPY:
            self._send_copy(call, [call], now)

    def _answered_by(self, attempt: int, now: float) -> bool:
        """Whether an attempt is answered by a moment."""
        return self._answer_at(attempt) <= now

    def _answer_at(self, attempt: int) -> float:
        """Time of an attempt's answer, as far as is known; final unless it is in the future."""
        return self._replicas.end[attempt] + self._rest[attempt]

    def _least(self, start: int, now: float) -> int:
        """Index of the least loaded replica, searched from a random one on so that ties are fair."""
        load = self._replicas.load
        best, least = start, load(start, now)
        for replica in (*range(start + 1, self._count), *range(start)):
            if not least:
                break
            other = load(replica, now)
            if other < least:
                best, least = replica, other
        return best

    def _pick_other(self, attempts: Sequence[int], now: float) -> int:
        """Best replica without one of these attempts; there must be one."""
        tried = [self._replicas.replica[attempt] for attempt in attempts]
        left = [replica for replica in range(self._count) if replica not in tried]
        turn = int(next(self._turns) * len(left))
        if self._dispatch == "random":
            return left[turn]
        score = self._replicas.score
        return min(left[turn:] + left[:turn], key=lambda replica: score(replica, now))

    def _again(self, call: int, now: float) -> None:
        """Send another copy of a call that has no answer yet."""
        if call in self._answered:
            return
        attempts = self._attempts.get(call, [call])
        if not any(self._answered_by(attempt, now) for attempt in attempts):
            self._send_copy(call, attempts, now)

    def _send_copy(self, call: int, attempts: list[int], now: float) -> None:
        """Send a copy that is due, if a replica is left and the account pays."""
        assert self._reissue is not None
        if len(attempts) == self._count:
            return
        if self._account is not None and not self._account.pays(call, now):
            then = now + (now - self._arrival[call])
            if then > now and not self._answered_by(call, then):
                heappush(self._events, (then, NEXT_COPY, call))
            return
        replica = self._pick_other(attempts, now)
        copy = self._given.count + len(self._owner)
        work, rest = self._copies(float(self._given.rest[call]))
        if self._replicas.load(replica, now) > MAX_QUEUED_CALLS:
            raise OverloadError(
                f"stage {self._name!r}: its copies overload it; send fewer, or cancel the losers"
            )
        self._owner.append(call)
        self._rest.append(rest)
        self._replicas.place(copy, replica, work, rest, now)
        attempts.append(copy)
        self._attempts[call] = attempts
        for attempt in attempts if len(attempts) == 2 else (copy,):  # noqa: PLR2004 - with the first copy
            self._watch(attempt, now)
        if len(attempts) <= self._reissue.copies:
            heappush(self._events, (now + self._reissue.after_ms, NEXT_COPY, call))

    def _watch(self, attempt: int, now: float) -> None:
        """Schedule a check at the time at which the attempt should be answered."""
        heappush(self._events, (max(now, self._answer_at(attempt)), CHECK_ANSWER, attempt))

    def _watched(self, attempt: int, now: float) -> None:
        """Process such a check; the attempt may take longer than expected."""
        call = self._call_of(attempt)
        if call in self._answered:
            return
        if not self._answered_by(attempt, now):
            self._watch(attempt, nextafter(now, inf))  # strictly later, whatever the rounding
            return
        self._answered[call] = now
        losers = self._attempts.pop(call)
        for loser in losers if self._cancel != "none" else ():
            if loser != attempt:
                self._take_out(loser, now)

    def _take_out(self, attempt: int, now: float) -> None:
        """Cancel an attempt that lost its race."""
        if self._estimates is not None and not self._answered_by(attempt, now):
            self._drop(attempt, now)
        if self._replicas.end[attempt] <= now:
            self._replicas.forget(attempt, now)
            return
        moved = self._replicas.remove(attempt, now, running=self._cancel == "running")
        if moved is None:
            return
        for other in moved:
            if len(self._attempts.get(self._call_of(other), ())) > 1:
                self._watch(other, now)

    def _drop(self, attempt: int, now: float) -> None:
        """Update the caller's estimates with an attempt that it cancels."""
        assert self._estimates is not None
        replica = self._replicas.replica[attempt]
        self._replicas.load(replica, now)  # processes earlier answers first
        self._estimates.dropped(replica, now - self._replicas.came[attempt], now)

    def _call_of(self, attempt: int) -> int:
        return attempt if attempt < self._given.count else self._owner[attempt - self._given.count]

    def _served(self) -> Served:
        given = self._given
        end = np.asarray(self._replicas.end[: given.count])
        seen = end + given.rest
        seen[list(self._answered)] = list(self._answered.values())
        return Served(
            latency_ms=seen - given.arrival,
            replica=np.asarray(self._replicas.replica[: given.count]),
            copies=np.bincount(np.asarray(self._owner, np.int64), minlength=given.count),
            worked_ms=np.asarray(self._replicas.worked),
            extra_ms=float(sum(self._replicas.worked) - given.work.sum()),
        )


def turns(rng: np.random.Generator) -> Iterator[float]:
    """Uniform draws from 0 to below 1, one after the other."""
    while True:
        yield from rng.random(DRAWS_PER_BATCH).tolist()


def _places(
    pinned: Ints, replicas: int, dispatch: Dispatch, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Two candidate replicas for each call; the same one twice where there is no choice."""
    one = rng.integers(replicas, size=len(pinned))
    if dispatch == "random" or replicas == 1:
        other = one
    else:
        other = (one + 1 + rng.integers(replicas - 1, size=len(pinned))) % replicas
    fixed = pinned >= 0
    one, other = np.where(fixed, pinned, one), np.where(fixed, pinned, other)
    return one.tolist(), other.tolist()
