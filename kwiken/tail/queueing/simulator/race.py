"""Event simulation of one stage: its calls, queues and copies.

There are four kinds of event: 1. calls arrive; 2. first time-outs pass; 3. watched attempts are answered; 4.
calls ask for another copy. Arrivals are sorted beforehand. First time-outs pass in the same order and matter
only for calls that were not certain to be answered by then at arrival. Only races, the few calls with a copy,
need a heap. A call that is answered in time costs its place in a queue and nothing else.

Here copies wait in the queues that they load; where nothing queues, `kwiken.tail.simulation.block_race` races
all calls at once. tests/tail/simulation/test_races.py holds both equal to the runtime's race of one call.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import inf, nextafter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.accounts import CALL, Account
from kwiken.model.plan.windows import PEAK_BUCKETS, PEAK_WINDOW_S
from kwiken.tail.queueing.simulator.calls import (
    CallOutcomes,
    DrawCopy,
    Ints,
    SimulatedAttempts,
    SimulatedCalls,
)
from kwiken.tail.queueing.simulator.fifo import FifoReplicas
from kwiken.tail.queueing.simulator.pauses import PausedClock
from kwiken.tail.queueing.simulator.replica_scores import Estimates
from kwiken.tail.queueing.simulator.station import Dispatch, Earnings, Station

CHECK_ANSWER: Final = 0  # event: an attempt should have been answered
NEXT_COPY: Final = 1  # event: a call may have another copy
EARNS: Final = 1  # role of a call: its time-out matters to the account only
MAY_COPY: Final = 2  # role of a call: it may have a copy
MAX_QUEUED_CALLS: Final = 1024  # calls at a copy's replica beyond which the stage counts as overloaded
BUCKET_MS: Final = 1000 * PEAK_WINDOW_S / PEAK_BUCKETS  # time that an account does not divide
DRAWS_PER_BATCH: Final = 512  # uniform numbers drawn at once
MAX_CANDIDATES: Final = 16  # replicas whose scores are compared for one call
EQUAL_SCORES: Final = 0.8  # ratio of two scores from which on they count as equal


class Dispatcher:
    """Chooses replicas of one stage. Draws come in a fixed order, so that runs are reproducible.

    Args:
        rng: source of randomness, used whenever a copy's replica is chosen.
    """

    __slots__ = ("_count", "_replicas", "_rule", "_uniforms")

    def __init__(self, rule: Dispatch, replicas: FifoReplicas, rng: np.random.Generator) -> None:
        self._rule = rule
        self._replicas = replicas
        self._count = len(replicas.busy_ms)
        self._uniforms = uniforms(rng)

    def least_loaded(self, start: int, now: float) -> int:
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

    def least_score(self, start: int, now: float) -> int:
        """Index of the replica with the least score of up to 16 from one on; near ties go to the first."""
        score, count = self._replicas.score, self._count
        best, least = start, inf
        for place in range(start, start + min(count, MAX_CANDIDATES)):
            replica = place if place < count else place - count
            found = score(replica, now)
            if found < least:
                best, least = replica, found * EQUAL_SCORES
        return best

    def for_copy(self, attempts: Sequence[int], now: float) -> int:
        """Best replica for a copy of a call with these attempts; fewer than there are replicas."""
        taken = [self._replicas.replica[attempt] for attempt in attempts]
        left = [replica for replica in range(self._count) if replica not in taken]
        first = int(next(self._uniforms) * len(left))
        if self._rule == "random":
            return left[first]
        score = self._replicas.score
        return min(left[first:] + left[:first], key=lambda replica: score(replica, now))


def candidates(
    rule: Dispatch, pinned: Ints, replicas: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Two candidate replicas for each primary call; the same one twice where there is no choice.

    Args:
        pinned: (m,) index of the replica of a background call; -1 for a call of the stage.
        replicas: number of replicas, 1 or more.
    """
    one = rng.integers(replicas, size=len(pinned))
    if rule == "random" or replicas == 1:
        other = one
    elif rule == "envoy":
        other = rng.integers(replicas, size=len(pinned))
    else:
        other = (one + 1 + rng.integers(replicas - 1, size=len(pinned))) % replicas
    fixed = pinned >= 0
    one, other = np.where(fixed, pinned, one), np.where(fixed, pinned, other)
    return one.tolist(), other.tolist()


def uniforms(rng: np.random.Generator) -> Iterator[float]:
    """Uniform draws from 0 to below 1, one after the other."""
    while True:
        yield from rng.random(DRAWS_PER_BATCH).tolist()


class CopyBudget:
    """Account of a stage that pays for copies out of the earnings of calls.

    Args:
        arrivals: (m,) arrival times of the calls that may earn, ascending, milliseconds.
    """

    def __init__(self, earnings: Earnings, arrivals: Floats) -> None:
        self._account = Account(earnings.bounds)
        self._earned_at: list[float] = [] if earnings.prompt_only else arrivals.tolist()
        self._seen = 0  # number of earnings already added
        self._denials: dict[int, int] = {}

    def earn_at(self, moment: float) -> None:
        """Add the earning of a call that will be prompt, at its time-out; times must ascend."""
        self._earned_at.append(moment)

    def earn(self, now: float) -> None:
        """Add the earning of a call whose time-out passes now, with its answer received before."""
        self._add_earnings(now)
        self._account.earn(CALL, now / 1000)

    def pays(self, call: int, now: float) -> bool:
        """Pay for one copy of a call if the account allows it; return whether it did."""
        self._add_earnings(now)
        denials = self._denials.get(call, 0)
        if self._account.refusal(CALL, now / 1000, denied=denials):
            self._denials[call] = denials + 1
            return False
        self._account.spend(CALL, now / 1000)
        return True

    def _add_earnings(self, now: float) -> None:
        """Add the earnings until now, those of one bucket of time at once."""
        times, first = self._earned_at, self._seen
        self._seen = end = bisect_right(times, now, lo=first)
        while first < end:
            moment = times[first]
            after = bisect_left(times, (moment // BUCKET_MS + 1) * BUCKET_MS, lo=first, hi=end)
            self._account.earn((after - first) * CALL, moment / 1000)
            first = after


class UnstableStageError(InputError):
    """A stage that cannot serve its copies: its queues would grow without bound."""


class QueueRace:
    """Event simulation of one stage.

    Args:
        station: the stage with its replicas and rules.
        draw_copy: function that draws work and rest of a copy.
        rng: source of randomness for replicas and for which calls may have copies.
        clocks: by replica: when it is paused; empty for no pauses.
    """

    def __init__(
        self,
        station: Station,
        calls: SimulatedCalls,
        draw_copy: DrawCopy,
        rng: np.random.Generator,
        clocks: Sequence[PausedClock] = (),
    ) -> None:
        assert station.replicas is not None
        self._station = station
        self._calls = calls
        self._draw_copy = draw_copy
        own = calls.pinned < 0
        self._replicas = FifoReplicas(
            station.replicas,
            calls.arrival.tolist(),
            estimates=Estimates(station.replicas) if station.dispatch == "aged" else None,
            background=frozenset(np.flatnonzero(~own).tolist()),
            clocks=clocks,
        )
        self._candidates = candidates(station.dispatch, calls.pinned, station.replicas, rng)
        self._roles = roles(station, own, rng)
        self._dispatcher = Dispatcher(station.dispatch, self._replicas, rng)
        self._attempts = SimulatedAttempts(calls.count)
        earnings = station.earnings
        self._account = CopyBudget(earnings, calls.arrival[own]) if earnings is not None else None
        self._prompt_account = self._account if earnings is not None and earnings.prompt_only else None
        self._late: deque[tuple[float, int]] = deque()  # (time-out, call) of those that may need a copy then
        self._events: list[tuple[float, int, int]] = []  # (moment, what, call or attempt), a heap

    def run(self) -> CallOutcomes:
        """Simulate all calls."""
        calls, late, prompt = self._calls, self._late, self._prompt_account
        place, score, process_until = self._replicas.place, self._replicas.score, self._process_until
        dispatcher, rule = self._dispatcher, self._station.dispatch
        least = {"least": dispatcher.least_loaded, "aged": dispatcher.least_score}.get(rule)
        columns = (calls.arrival.tolist(), calls.work.tolist(), calls.rest.tolist())
        each = zip(*columns, *self._candidates, self._roles, strict=True)
        after = self._station.reissue.after_ms if self._station.reissue is not None else inf
        upcoming = inf
        for call, (now, work, rest, one, other, role) in enumerate(each):
            if upcoming <= now:
                upcoming = process_until(now)
            replica = one
            if one != other:
                if least is not None:
                    replica = least(one, now)
                elif score(one, now) > score(other, now):
                    replica = other
            answer = place(call, replica, work, rest, now)
            if role:
                due = now + after
                if answer > due:
                    late.append((due, call))
                    upcoming = min(upcoming, due)
                elif prompt is not None:
                    prompt.earn_at(due)
        process_until(inf)
        return self._outcomes()

    def _process_until(self, now: float) -> float:
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
                    self._check_answer(number, moment)
                else:
                    self._ask_again(number, moment)
            elif due < now:
                self._time_out(late.popleft()[1], due)
            else:
                return due

    def _time_out(self, call: int, now: float) -> None:
        """Process the first time-out of a call that was expected to be late."""
        if self._replicas.answer_at(call) <= now:
            if self._prompt_account is not None:
                self._prompt_account.earn(now)
        elif self._roles[call] == MAY_COPY:
            self._send_copy(call, now)

    def _ask_again(self, call: int, now: float) -> None:
        """Send another copy of a call that has no answer yet."""
        if self._attempts.is_answered(call):
            return
        if all(self._replicas.answer_at(attempt) > now for attempt in self._attempts.of(call)):
            self._send_copy(call, now)

    def _send_copy(self, call: int, now: float) -> None:
        """Send a copy that is due, if a replica is left and the account pays."""
        station, attempts = self._station, self._attempts.of(call)
        assert station.reissue is not None
        sent = len(attempts)
        if sent == station.replicas:
            return
        if self._account is not None and not self._account.pays(call, now):
            then = now + (now - float(self._calls.arrival[call]))  # at twice its age
            if then > now and self._replicas.answer_at(call) > then:
                heappush(self._events, (then, NEXT_COPY, call))
            return
        replica = self._dispatcher.for_copy(attempts, now)
        work, rest = self._draw_copy(float(self._calls.rest[call]))
        if self._replicas.load(replica, now) > MAX_QUEUED_CALLS:
            raise UnstableStageError(
                f"stage {station.name!r}: its copies overload it; send fewer, or cancel the losers"
            )
        copy = self._attempts.add_copy(call)
        self._replicas.place(copy, replica, work, rest, now)
        for attempt in (call, copy) if sent == 1 else (copy,):
            self._watch(attempt, now)
        if sent < station.reissue.copies:
            heappush(self._events, (now + station.reissue.after_ms, NEXT_COPY, call))

    def _watch(self, attempt: int, now: float) -> None:
        """Schedule a check at the time at which the attempt should be answered."""
        heappush(self._events, (max(now, self._replicas.answer_at(attempt)), CHECK_ANSWER, attempt))

    def _check_answer(self, attempt: int, now: float) -> None:
        """Process such a check; the attempt may take longer than expected."""
        if self._attempts.is_answered(self._attempts.call_of(attempt)):
            return
        if self._replicas.answer_at(attempt) > now:
            self._watch(attempt, nextafter(now, inf))  # strictly later, whatever the rounding
            return
        losers = self._attempts.win(attempt, now)
        if self._station.cancel != "none":
            for loser in losers:
                self._cancel(loser, now)

    def _cancel(self, loser: int, now: float) -> None:
        """Cancel an attempt that lost its race; attempts that now end earlier are watched anew."""
        for moved in self._replicas.cancel(loser, now, running=self._station.cancel == "running"):
            if self._attempts.is_racing(self._attempts.call_of(moved)):
                self._watch(moved, now)

    def _outcomes(self) -> CallOutcomes:
        calls, replicas = self._calls, self._replicas
        answers = np.asarray(replicas.end[: calls.count]) + calls.rest
        self._attempts.set_answers(answers)
        return CallOutcomes(
            latency_ms=answers - calls.arrival,
            replica=np.asarray(replicas.replica[: calls.count]),
            copies=self._attempts.copies(),
            busy_ms=np.asarray(replicas.busy_ms),
            extra_work_ms=float(sum(replicas.busy_ms) - calls.work.sum()),
        )


def roles(station: Station, own: NDArray[np.bool_], rng: np.random.Generator) -> bytes:
    """Role of each call at its first time-out: 0 for none, `EARNS` or `MAY_COPY`.

    Args:
        station: the stage with its rules; on a single replica no call may have a copy.
        own: (m,) whether each call is the stage's own; background calls have no role.
        rng: source of randomness; one draw a call where the policy has a probability below 1.
    """
    if station.reissue is None or station.replicas == 1:
        return bytes(len(own))
    may = own
    if station.reissue.probability < 1:
        may = own & (rng.random(len(own)) < station.reissue.probability)
    earns = own if station.earnings is not None and station.earnings.prompt_only else may
    return np.where(may, MAY_COPY, np.where(earns, EARNS, 0)).astype(np.uint8).tobytes()
