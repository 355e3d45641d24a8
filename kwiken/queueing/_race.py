"""One stage's calls, its queues and its copies, moment by moment.

Four things happen: calls arrive, they get old enough for a copy, watched attempts end, and calls ask for
another copy. Arrivals and first time-outs are sorted beforehand; only races, the few calls that got a copy,
need a heap. A call that is answered in time costs its place in a queue and one look at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, nextafter
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kwiken._errors import InputError
from kwiken._profile import Floats
from kwiken.queueing._account import Account
from kwiken.queueing._estimates import Estimates
from kwiken.queueing._fifo import FifoReplicas
from kwiken.queueing._pauses import Clock
from kwiken.queueing._sharing import SharingReplicas
from kwiken.queueing._station import Dispatch, Station

Ints = NDArray[np.int64]
Copies = Callable[[float], tuple[float, float]]
WATCH: Final = 0  # an attempt should have been answered
AGAIN: Final = 1  # a call may have another copy
MOST_HELD: Final = 1024  # calls at the replica that is to take a copy: it will never be rid of them


class OverloadError(InputError):
    """A stage whose copies are more than its replicas can serve: its queues grow without end."""


class Replicas(Protocol):
    """The replicas of a stage, whatever their discipline."""

    came: list[float]
    end: list[float]
    replica: list[int]
    worked: list[float]

    def load(self, replica: int, now: float) -> int:
        """Calls that its caller waits for, in service, in the queue or at rest."""

    def oldest(self, replica: int) -> float:
        """When the oldest of them came."""

    def place(self, call: int, replica: int, work: float, rest: float, now: float) -> None:
        """A call arrives."""

    def end_by(self, call: int, now: float) -> float:
        """When a call's work ended; any moment after `now` where it has not."""

    def likely_end(self, call: int, now: float) -> float:
        """When it ends if nothing else happens; or a moment before that, to look again."""

    def forget(self, call: int, now: float) -> None:
        """Its caller waits no more."""

    def remove(self, call: int, now: float, *, running: bool) -> list[int] | None:
        """Take out a call that goes on; those that now end earlier, or None where it was left to run."""

    def finish(self) -> None:
        """Nothing more will come."""


@dataclass(frozen=True)
class Calls:
    """Primary calls of one stage, in the order of arrival.

    Attributes:
        arrival: (m,) milliseconds, ascending.
        work: (m,) milliseconds.
        rest: (m,) milliseconds.
        pinned: (m,) replica that takes it: the stage's background; -1 for a call like any other.
    """

    arrival: Floats
    work: Floats
    rest: Floats
    pinned: Ints

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.arrival)


@dataclass(frozen=True)
class Served:
    """What became of them.

    Attributes:
        latency_ms: (m,) from arrival to the first answer.
        wait_ms: (m,) time of the first attempt in the replica beyond its work; NaN where it was taken out.
        replica: (m,) who took the first attempt.
        copies: (m,) copies sent.
        denied: copies that the account could not pay when they were due.
        worked_ms: (replicas,) work done, of copies and background too.
        extra_ms: how much of it copies caused: what all attempts did beyond the work of first ones.
    """

    latency_ms: Floats
    wait_ms: Floats
    replica: Ints
    copies: Ints
    denied: int
    worked_ms: Floats
    extra_ms: float


class QueueRace:
    """Runs the calls of one stage through its queues.

    Args:
        station: the stage.
        calls: its primary calls.
        clocks: one a replica; None where it never pauses.
        copies: work and rest of a copy, given the rest of its call.
        rng: for replicas and coins.
    """

    def __init__(
        self,
        station: Station,
        calls: Calls,
        clocks: Sequence[Clock | None],
        copies: Copies,
        rng: np.random.Generator,
    ) -> None:
        kind = FifoReplicas if station.discipline == "fifo" else SharingReplicas
        self._count = len(clocks)
        self._estimates = Estimates(self._count) if station.dispatch == "aged" else None
        self._replicas: Replicas = kind(
            clocks,
            station.workers,
            len(calls.arrival),
            answered=self._estimates.answered if self._estimates is not None else None,
            unheard=frozenset(np.flatnonzero(calls.pinned >= 0).tolist()),
        )
        self._name = station.name
        self._dispatch = station.dispatch
        self._cancel = station.cancel
        self._reissue = station.reissue if self._count > 1 else None
        self._given = calls
        self._arrival = calls.arrival.tolist()
        self._rest: list[float] = calls.rest.tolist()
        self._copies = copies
        self._rng = rng
        self._places = _places(calls.pinned, self._count, station.dispatch, rng)
        earnings = station.earnings
        own = calls.pinned < 0
        self._account = Account(earnings, calls.arrival[own]) if earnings is not None else None
        self._prompt_earn = self._account if earnings is not None and earnings.prompt_only else None
        self._due, self._late, self._may = self._time_outs(calls)
        self._next = 0  # place in both
        self._events: list[tuple[float, int, int]] = []  # (moment, what, call or attempt), a heap
        self._attempts: dict[int, list[int]] = {}  # by call in a race
        self._owner: list[int] = []  # by copy: its call
        self._answered: dict[int, float] = {}  # by call that had a copy: when
        self._taken_out: list[int] = []

    def run(self) -> Served:
        """Serve all calls."""
        place, pick, until = self._replicas.place, self._pick, self._until
        due, events = self._due, self._events
        given = self._given
        each = zip(self._arrival, given.work.tolist(), given.rest.tolist(), *self._places, strict=True)
        for call, (now, need, rest, one, other) in enumerate(each):
            if due[self._next] < now or (events and events[0][0] <= now):
                until(now)
            place(call, one if one == other else pick(one, other, now), need, rest, now)
        until(inf)
        self._replicas.finish()
        return self._served()

    def _time_outs(self, calls: Calls) -> tuple[list[float], list[int], list[bool]]:
        """When first time-outs pass, ascending, of which calls, and whether these may have a copy then.

        A moment that never comes closes it. Calls without a copy's coin are there only where they may earn.
        """
        reissue = self._reissue
        if reissue is None:
            return [inf], [-1], [False]
        own = calls.pinned < 0
        may = own.copy()
        if reissue.probability < 1:  # one coin a call, as in the runtime
            may &= self._rng.random(len(may)) < reissue.probability
        seen = np.flatnonzero(may if self._prompt_earn is None else own)
        due = calls.arrival[seen] + reissue.after_ms
        return [*due.tolist(), inf], [*seen.tolist(), -1], [*may[seen].tolist(), False]

    def _until(self, now: float) -> None:
        """Let everything happen that is due before `now`, and races end that end at that very moment."""
        events = self._events
        while True:
            due = self._due[self._next]
            if events and events[0][0] <= due:
                if events[0][0] > now or events[0][0] == inf:
                    return
                moment, what, number = heappop(events)
                if what == WATCH:
                    self._watched(number, moment)
                else:
                    self._again(number, moment)
            elif due < now:
                self._time_out(self._late[self._next], due, may=self._may[self._next])
                self._next += 1
            else:
                return

    def _time_out(self, call: int, now: float, *, may: bool) -> None:
        """A call's first time-out passes."""
        if self._replicas.end_by(call, now) + self._rest[call] <= now:
            if self._prompt_earn is not None:
                self._prompt_earn.earn()
        elif may:
            self._attempts[call] = [call]
            self._send_copy(call, now)

    def _pick(self, one: int, other: int, now: float) -> int:
        """Which replica takes a call."""
        if self._dispatch != "least":
            return one if self._score(one, now) <= self._score(other, now) else other
        best, least = one, self._replicas.load(one, now)
        # from a random one, so that ties are fair
        for replica in (*range(one + 1, self._count), *range(one)):
            if not least:
                break
            load = self._replicas.load(replica, now)
            if load < least:
                best, least = replica, load
        return best

    def _score(self, replica: int, now: float) -> float:
        """Lower is better."""
        load = self._replicas.load(replica, now)
        if self._estimates is None:
            return load
        oldest = self._replicas.oldest(replica) if load else now
        return self._estimates.score(replica, load, oldest, now)

    def _pick_other(self, call: int, now: float) -> int | None:
        """A replica without an attempt of this call; None where there is none."""
        tried = [self._replicas.replica[attempt] for attempt in self._attempts[call]]
        left = [replica for replica in range(self._count) if replica not in tried]
        if not left:
            return None
        turn = int(self._rng.integers(len(left)))
        if self._dispatch == "random":
            return left[turn]
        return min(left[turn:] + left[:turn], key=lambda replica: self._score(replica, now))

    def _again(self, call: int, now: float) -> None:
        """A call may have another copy, if it still waits."""
        attempts = self._attempts.get(call)
        if attempts is None:
            return
        if len(attempts) == 1 and self._replicas.end_by(call, now) + self._rest[call] <= now:
            del self._attempts[call]  # it was never watched, as it has no copy
            return
        self._send_copy(call, now)

    def _send_copy(self, call: int, now: float) -> None:
        """A copy is due."""
        attempts, seat = self._attempts[call], self._pick_other(call, now)
        assert self._reissue is not None
        if seat is None:
            return
        if self._account is not None and not self._account.pays(call, now):
            age = now - self._arrival[call]
            if age > 0:
                heappush(self._events, (now + age, AGAIN, call))
            return
        copy = self._given.count + len(self._owner)
        work, rest = self._copies(self._rest[call])
        if self._replicas.load(seat, now) > MOST_HELD:
            raise OverloadError(
                f"stage {self._name!r}: its copies overload it; send fewer, or cancel the losers"
            )
        self._owner.append(call)
        self._rest.append(rest)
        self._replicas.place(copy, seat, work, rest, now)
        attempts.append(copy)
        for attempt in attempts if len(attempts) == 2 else (copy,):  # noqa: PLR2004 - with the first copy
            self._watch(attempt, now)
        if len(attempts) <= self._reissue.copies:
            heappush(self._events, (now + self._reissue.after_ms, AGAIN, call))

    def _watch(self, attempt: int, now: float) -> None:
        """Look again when the attempt should have been answered."""
        likely = self._replicas.likely_end(attempt, now) + self._rest[attempt]
        heappush(self._events, (max(now, likely), WATCH, attempt))

    def _watched(self, attempt: int, now: float) -> None:
        """An attempt should have been answered by now; it may take longer after all."""
        call = self._call_of(attempt)
        if call in self._answered:
            return
        if self._replicas.end_by(attempt, now) + self._rest[attempt] > now:
            self._watch(attempt, nextafter(now, inf))  # later by all means, whatever rounding says
            return
        self._answered[call] = now
        losers = self._attempts.pop(call)
        for loser in losers if self._cancel != "none" else ():
            if loser != attempt:
                self._take_out(loser, now)

    def _take_out(self, attempt: int, now: float) -> None:
        """Nobody waits for this attempt any more."""
        done = self._replicas.end_by(attempt, now) <= now
        if self._estimates is not None and not (done and self._seen(attempt) <= now):
            self._drop(attempt, now)
        if done:
            self._replicas.forget(attempt, now)
            return
        moved = self._replicas.remove(attempt, now, running=self._cancel == "running")
        if moved is None:
            return
        if attempt < self._given.count:
            self._taken_out.append(attempt)
        for other in moved:
            if len(self._attempts.get(self._call_of(other), ())) > 1:
                self._watch(other, now)

    def _seen(self, attempt: int) -> float:
        """When an attempt whose work has ended is answered."""
        return self._replicas.end[attempt] + self._rest[attempt]

    def _drop(self, attempt: int, now: float) -> None:
        """The caller learns from an attempt that it gives up."""
        assert self._estimates is not None
        replica = self._replicas.replica[attempt]
        self._replicas.load(replica, now)  # learn first what was answered before
        self._estimates.dropped(replica, now - self._replicas.came[attempt], now)

    def _call_of(self, attempt: int) -> int:
        return attempt if attempt < self._given.count else self._owner[attempt - self._given.count]

    def _served(self) -> Served:
        given = self._given
        end = np.asarray(self._replicas.end[: given.count])
        wait = end - given.arrival - given.work
        wait[self._taken_out] = np.nan
        seen = end + given.rest
        seen[list(self._answered)] = list(self._answered.values())
        return Served(
            latency_ms=seen - given.arrival,
            wait_ms=np.maximum(wait, 0.0),  # rounding may leave a shade less than nothing
            replica=np.asarray(self._replicas.replica[: given.count]),
            copies=np.bincount(np.asarray(self._owner, np.int64), minlength=given.count),
            denied=self._account.denied if self._account is not None else 0,
            worked_ms=np.asarray(self._replicas.worked),
            extra_ms=float(sum(self._replicas.worked) - given.work.sum()),
        )


def _places(
    pinned: Ints, replicas: int, dispatch: Dispatch, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Two replicas for each call to choose from; twice the same where there is no choice."""
    one = rng.integers(replicas, size=len(pinned))
    if dispatch == "random" or replicas == 1:
        other = one
    else:
        other = (one + 1 + rng.integers(replicas - 1, size=len(pinned))) % replicas
    fixed = pinned >= 0
    one, other = np.where(fixed, pinned, one), np.where(fixed, pinned, other)
    return one.tolist(), other.tolist()
