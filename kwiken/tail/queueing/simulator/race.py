"""Event simulation of one stage: its calls, queues and copies.

There are four kinds of event: 1. calls arrive; 2. first time-outs pass; 3. watched attempts are answered; 4.
calls ask for another copy. Arrivals are sorted beforehand. First time-outs pass in the same order and matter
only for calls that were not certain to be answered by then at arrival. Only races, the few calls with a copy,
need a heap. A call that is answered in time costs its place in a queue and nothing else.

Here copies wait in the queues that they load; where nothing queues, `kwiken.tail.simulation.block_race` races
all calls at once. tests/tail/simulation/test_races.py holds both equal to the runtime's race of one call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf, nextafter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.base.errors import InputError
from kwiken.tail.queueing.simulator.calls import CallOutcomes, DrawCopy, SimulatedAttempts, SimulatedCalls
from kwiken.tail.queueing.simulator.copy_budget import CopyBudget
from kwiken.tail.queueing.simulator.dispatch import Dispatcher, candidates
from kwiken.tail.queueing.simulator.fifo import FifoReplicas
from kwiken.tail.queueing.simulator.pauses import PausedClock
from kwiken.tail.queueing.simulator.replica_scores import Estimates
from kwiken.tail.queueing.simulator.station import Station

CHECK_ANSWER: Final = 0  # event: an attempt should have been answered
NEXT_COPY: Final = 1  # event: a call may have another copy
EARNS: Final = 1  # role of a call: its time-out matters to the account only
MAY_COPY: Final = 2  # role of a call: it may have a copy
MAX_QUEUED_CALLS: Final = 1024  # calls at a copy's replica beyond which the stage counts as overloaded


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
