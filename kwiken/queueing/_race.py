"""One stage's calls, its queues and its copies, moment by moment.

Four things happen: calls arrive, they get old enough for a copy, watched attempts end, and calls ask for
another copy. Arrivals are sorted beforehand. First time-outs pass in the same order, and need a look only
where the call was not sure to be answered by then when it came. Only races, the few calls that got a copy,
need a heap. A call that is answered in time costs its place in a queue and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
from kwiken.queueing._pauses import Clock, goes_on_at
from kwiken.queueing._sharing import SharingReplicas
from kwiken.queueing._station import Dispatch, Station

Ints = NDArray[np.int64]
Copies = Callable[[float, float], tuple[float, float]]
WATCH: Final = 0  # an attempt should have been answered
AGAIN: Final = 1  # a call may have another copy
EARNS: Final = 1  # a call whose time-out matters to the account alone
MAY: Final = 2  # a call that may have a copy
DRAWN: Final = 512  # turns that are drawn at once
MOST_HELD: Final = 1024  # calls at the replica that is to take a copy: it will never be rid of them


class OverloadError(InputError):
    """A stage whose copies are more than its replicas can serve: its queues grow without end."""


class Replicas(Protocol):
    """The replicas of a stage, whatever their discipline."""

    score: Callable[[int, float], float]
    came: list[float]
    end: list[float]
    replica: list[int]
    worked: list[float]

    def load(self, replica: int, now: float) -> int:
        """Calls that its caller waits for, in service, in the queue or at rest."""

    def place(self, call: int, replica: int, work: float, rest: float, now: float) -> float:
        """A call arrives; when it is answered at the latest, as far as is known."""

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

    def service(self) -> Floats | None:
        """(a,): how long each attempt was served; None where all in service share their replica."""


@dataclass(frozen=True)
class Calls:
    """Primary calls of one stage, in the order of arrival.

    Attributes:
        arrival: (m,) milliseconds, ascending.
        work: (m,) milliseconds.
        rest: (m,) milliseconds.
        pinned: (m,) replica that takes it: the stage's background; -1 for a call like any other.
        sending: (m,) milliseconds before its arrival at which its caller began to send it, so that time-outs
            count from there, in the order of arrival; None for none.
        reading: (m,) milliseconds that the process in front takes then to read the answer; None for none.
        passing: (m,) milliseconds that the process in front takes, once a copy of it is due, to come to
            that, to send it and to read the answer; None for none.
    """

    arrival: Floats
    work: Floats
    rest: Floats
    pinned: Ints
    sending: Floats | None = None
    reading: Floats | None = None
    passing: Floats | None = None

    def grace_ms(self, station: Station) -> Floats:
        """(m,) how long after a call's time-out its answer may be read and no copy goes, milliseconds.

        Before the front sends a copy it reads what has come until then (decision 18).

        Args:
            station: the stage.
        """
        passing = np.zeros(self.count) if self.passing is None else self.passing
        return np.maximum(0.0, passing - station.front_ms / 2)

    @property
    def seen_after(self) -> Floats:
        """(m,) milliseconds from the end of its work until its answer is seen."""
        return self.rest if self.reading is None else self.rest + self.reading

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.arrival)


@dataclass(frozen=True)
class Attempts:
    """All attempts of a stage's calls, primaries first; a of them.

    Attributes:
        call: (a,) whose; -1 for other work of the replicas.
        came: (a,) moments at which they came to their replicas.
        replica: (a,) which; -1 where there is none.
        work: (a,) milliseconds of own time for which they were served; 0 where they were taken out before.
        rest: (a,) milliseconds.
        wins: (a,) whether it answered its call.
    """

    call: Ints
    came: Floats
    replica: Ints
    work: Floats
    rest: Floats
    wins: NDArray[np.bool_]


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
        attempts: of all calls; None where nobody asked.
    """

    latency_ms: Floats
    wait_ms: Floats
    replica: Ints
    copies: Ints
    denied: int
    worked_ms: Floats
    extra_ms: float
    attempts: Attempts | None = None


class QueueRace:
    """Runs the calls of one stage through its queues.

    Args:
        station: the stage.
        calls: its primary calls.
        clocks: one a replica; None where it never pauses.
        copies: work and rest of a copy, given its call's.
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
        self._count, self._clocks = len(clocks), clocks
        self._estimates = Estimates(self._count) if station.dispatch == "aged" else None
        self._arrival: list[float] = calls.arrival.tolist()
        own = calls.pinned < 0
        self._replicas: Replicas = kind(
            clocks,
            station.workers,
            self._arrival,
            estimates=self._estimates,
            unheard=frozenset(np.flatnonzero(~own).tolist()),
        )
        self._name = station.name
        self._dispatch = station.dispatch
        self._cancel = station.cancel
        self._reissue = station.reissue if self._count > 1 else None
        self._given = calls
        self._rest: list[float] = calls.seen_after.tolist()  # by attempt, until its answer is seen
        self._grace = calls.grace_ms(station)
        self._passing: list[float] | None = None if calls.passing is None else calls.passing.tolist()
        self._copies = copies
        self._begun = self._arrival if calls.sending is None else (calls.arrival - calls.sending).tolist()
        self._places = _places(calls.pinned, self._count, station.dispatch, rng)
        earnings = station.earnings
        self._account = Account(earnings, calls.arrival[own]) if earnings is not None else None
        self._prompt_earn = self._account if earnings is not None and earnings.prompt_only else None
        self._roles = self._roles_of(own, rng)
        self._late: deque[tuple[float, int]] = deque()  # (time-out, call) of those that may need a copy then
        self._turns = turns(rng)
        self._events: list[tuple[float, int, int]] = []  # (moment, what, call or attempt), a heap
        self._attempts: dict[int, list[int]] = {}  # by call in a race
        self._owner: list[int] = []  # by copy: its call
        self._answered: dict[int, float] = {}  # by call that had a copy: when
        self._winner: dict[int, int] = {}  # and by which attempt
        self._taken_out: list[int] = []

    def run(self) -> Served:
        """Serve all calls."""
        place, score, until = self._replicas.place, self._replicas.score, self._until
        least = self._least if self._dispatch == "least" else None
        given, late, begun = self._given, self._late, self._begun
        each = zip(
            self._arrival, given.work.tolist(), self._rest.copy(), *self._places, self._roles, strict=True
        )
        after = self._reissue.after_ms if self._reissue is not None else inf
        prompt = self._prompt_earn
        upcoming = inf
        for call, (now, need, rest, one, other, role) in enumerate(each):
            if upcoming <= now:
                upcoming = until(now)
            seat = one
            if one != other:
                if least is not None:
                    seat = least(one, now)
                elif score(one, now) > score(other, now):
                    seat = other
            answer = place(call, seat, need, rest, now)
            if role:
                due = max(now, begun[call] + after)
                if answer > due:
                    late.append((due, call))
                    upcoming = min(upcoming, due)
                elif prompt is not None:
                    prompt.earn_at(due)
        until(inf)
        self._replicas.finish()
        return self._served()

    def _roles_of(self, own: NDArray[np.bool_], rng: np.random.Generator) -> bytes:
        """What passes at each call's first time-out: nothing, `EARNS` or `MAY`."""
        if self._reissue is None:
            return bytes(len(own))
        may = own
        if self._reissue.probability < 1:  # one coin a call, as in the runtime
            may = own & (rng.random(len(own)) < self._reissue.probability)
        earns = own if self._prompt_earn is not None else may
        return np.where(may, MAY, np.where(earns, EARNS, 0)).astype(np.uint8).tobytes()

    def _until(self, now: float) -> float:
        """Let everything happen that is due before `now`, and races end that end at that very moment.

        Returns:
            The next moment at which something is due.
        """
        events, late = self._events, self._late
        while True:
            due = late[0][0] if late else inf
            if events and events[0][0] <= due:
                moment = events[0][0]
                if moment > now or moment == inf:
                    return moment
                _, what, number = heappop(events)
                if what == WATCH:
                    self._watched(number, moment)
                else:
                    self._again(number, moment)
            elif due < now:
                self._time_out(late.popleft()[1], due)
            else:
                return due

    def _time_out(self, call: int, now: float) -> None:
        """The first time-out passes of a call that was expected to be late."""
        if self._in_time(call, call, now):
            if self._prompt_earn is not None:
                self._prompt_earn.earn()
        elif self._roles[call] == MAY:
            self._send_copy(call, [call], now)

    def _in_time(self, attempt: int, call: int, now: float) -> bool:
        """Whether an attempt answers its call before a copy that is due now can go."""
        answered = self._replicas.end_by(attempt, now) + self._rest[attempt]
        return answered <= now + float(self._grace[call])

    def _least(self, start: int, now: float) -> int:
        """The least loaded replica, from a random one on so that ties are fair."""
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
        """A replica without one of these attempts; there must be one."""
        tried = [self._replicas.replica[attempt] for attempt in attempts]
        left = [replica for replica in range(self._count) if replica not in tried]
        turn = int(next(self._turns) * len(left))
        if self._dispatch == "random":
            return left[turn]
        score = self._replicas.score
        return min(left[turn:] + left[:turn], key=lambda replica: score(replica, now))

    def _again(self, call: int, now: float) -> None:
        """A call may have another copy, if it still waits."""
        if call in self._answered:
            return
        attempts = self._attempts.get(call, [call])
        if not any(self._in_time(attempt, call, now) for attempt in attempts):
            self._send_copy(call, attempts, now)

    def _send_copy(self, call: int, attempts: list[int], now: float) -> None:
        """A copy is due, if there is a replica for it and somebody pays."""
        assert self._reissue is not None
        if len(attempts) == self._count:
            return
        if self._account is not None and not self._account.pays(call, now):
            then = now + (now - self._begun[call])
            answered_by_then = self._replicas.end[call] + self._rest[call] <= then
            if then > now and not answered_by_then:
                heappush(self._events, (then, AGAIN, call))
            return
        seat = self._pick_other(attempts, now)
        copy = self._given.count + len(self._owner)
        work, rest = self._copies(float(self._given.work[call]), float(self._given.rest[call]))
        if self._passing is not None:
            rest += self._passing[call]
        if self._replicas.load(seat, now) > MOST_HELD:
            raise OverloadError(
                f"stage {self._name!r}: its copies overload it; send fewer, or cancel the losers"
            )
        self._owner.append(call)
        self._rest.append(rest)
        self._replicas.place(copy, seat, work, rest, now)
        attempts.append(copy)
        self._attempts[call] = attempts
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
        self._winner[call] = attempt
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
        clock = self._clocks[replica]
        alive_at = now if clock is None else goes_on_at(clock, now)
        self._estimates.dropped(replica, now - self._replicas.came[attempt], now, alive_at)

    def _call_of(self, attempt: int) -> int:
        return attempt if attempt < self._given.count else self._owner[attempt - self._given.count]

    def _served(self) -> Served:
        given = self._given
        end = np.asarray(self._replicas.end[: given.count])
        wait = end - given.arrival - given.work
        wait[self._taken_out] = np.nan
        seen = end + given.seen_after
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

    def attempts(self) -> Attempts | None:
        """What became of all attempts, after `run`; None where calls are not served in order."""
        work = self._replicas.service()
        if work is None:
            return None
        count = self._given.count
        wins = np.arange(len(work)) < count
        wins[list(self._winner)] = False
        wins[list(self._winner.values())] = True
        return Attempts(
            call=np.concatenate((np.arange(count), np.asarray(self._owner, np.int64))),
            came=np.asarray(self._replicas.came),
            replica=np.asarray(self._replicas.replica),
            work=work,
            rest=np.asarray(self._rest),
            wins=wins,
        )


def turns(rng: np.random.Generator) -> Iterator[float]:
    """Uniform draws from 0 to below 1, one after the other."""
    while True:
        yield from rng.random(DRAWN).tolist()


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
