"""Queues with copies against a slow reference simulator, and properties that the rules imply."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import exp2, inf
from typing import Any, get_args

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.accounts import CALL, Account, LedgerBounds
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.simulator.calls import CallOutcomes, DrawCopy, SimulatedCalls
from kwiken.tail.queueing.simulator.race import (
    EQUAL_SCORES,
    MAX_CANDIDATES,
    MAY_COPY,
    QueueRace,
    UnstableStageError,
    candidates,
    roles,
    uniforms,
)
from kwiken.tail.queueing.simulator.replica_scores import (
    FRESH_MS,
    HALF_LIFE_MS,
    MAX_RATIO,
    MAX_SAMPLE_RATIO,
    SMOOTHING,
)
from kwiken.tail.queueing.simulator.service_times import Constant, LogNormal
from kwiken.tail.queueing.simulator.stage import copy_drawer, serve
from kwiken.tail.queueing.simulator.station import Background, Cancel, Dispatch, Earnings, Station
from tests.support.models.distributions import Exponential

WORK = Exponential(10.0)


@dataclass
class Attempt:
    call: int
    replica: int
    work_left: float
    rest: float
    arrival: float
    work_end: float = inf
    removed: bool = False
    cancelled: bool = False
    learned: bool = False

    @property
    def answer_at(self) -> float:
        return self.work_end + self.rest


class ReferenceEstimates:
    """Reference estimates of replicas by the same rules, one step at a time."""

    def __init__(self, replicas: int) -> None:
        self.latency: list[float | None] = [None] * replicas
        self.typical: float | None = None
        self.sampled_at = [-FRESH_MS] * replicas

    def answered(self, replica: int, latency: float, now: float) -> None:
        self.latency[replica] = self.moved(self.latency[replica], latency)
        self.typical = self.moved(self.typical, latency)
        self.sampled_at[replica] = now

    @staticmethod
    def moved(known: float | None, latency: float) -> float:
        if not known:
            return latency
        return (1 - SMOOTHING) * known + SMOOTHING * min(latency, MAX_SAMPLE_RATIO * known)

    def cancelled(self, replica: int, age: float, now: float) -> None:
        if age > (self.latency[replica] or 0.0):
            self.answered(replica, age, now)

    def score(self, replica: int, outstanding: list[Attempt], now: float) -> float:
        typical = self.typical or 1.0
        latency = self.latency[replica] or typical
        stale = now - self.sampled_at[replica] - FRESH_MS
        if self.latency[replica] and stale > 0:
            distance = np.clip(np.log(latency / typical), -np.log(MAX_RATIO), np.log(MAX_RATIO))
            latency = typical * float(np.exp(distance * exp2(-stale / HALF_LIFE_MS)))
        oldest = max((now - attempt.arrival for attempt in outstanding), default=0.0)
        return max(latency, oldest) * (len(outstanding) + 1)


class ReferenceSimulator:
    """The same rules by brute force: each step finds the next event anywhere, and does the work until then.

    Args:
        station: the stage with its rules.
        calls: its calls.
        draw_copy: function that draws a copy.
        rng: source of randomness, used in the same order as by the simulator.
    """

    def __init__(
        self, station: Station, calls: SimulatedCalls, draw_copy: DrawCopy, rng: np.random.Generator
    ) -> None:
        assert station.replicas is not None
        self.station, self.calls, self.draw_copy = station, calls, draw_copy
        self.replicas = range(station.replicas)
        self.candidates = candidates(station.dispatch, calls.pinned, station.replicas, rng)
        self.roles = roles(station, calls.pinned < 0, rng)
        self.uniforms = uniforms(rng)
        self.attempts: list[Attempt] = []
        self.of: dict[int, list[Attempt]] = {}
        self.answer: dict[int, float] = {}
        self.now = 0.0
        self.busy_ms = [0.0] * station.replicas
        self.estimates = ReferenceEstimates(station.replicas)
        self.denials: dict[int, int] = {}
        self.account = Account(station.earnings.bounds) if station.earnings else None

    def present(self, replica: int) -> list[Attempt]:
        return [a for a in self.attempts if a.replica == replica and a.work_end == inf and not a.removed]

    def in_service(self) -> list[Attempt]:
        """The first of each replica's queue."""
        return [present[0] for replica in self.replicas if (present := self.present(replica))]

    def run(self) -> None:
        arrivals = list(zip(self.calls.arrival.tolist(), itertools.count()))
        after_ms = self.station.reissue.after_ms if self.station.reissue is not None else inf
        # (moment, call, whether it may have a copy, whether it is the call's first)
        timers: list[tuple[float, int, bool, bool]] = sorted(
            (moment + after_ms, call, role == MAY_COPY, True)
            for call, (moment, role) in enumerate(zip(self.calls.arrival.tolist(), self.roles, strict=True))
            if role
        )
        while True:
            serving = self.in_service()
            ends = min(((self.now + a.work_left, i) for i, a in enumerate(serving)), default=(inf, -1))
            answers = min(
                (
                    (a.answer_at, a.call)
                    for a in self.attempts
                    if a.work_end < inf and not a.removed and a.call not in self.answer
                ),
                default=(inf, -1),
            )
            arrival = arrivals[0][0] if arrivals else inf
            timer = timers[0][0] if timers else inf
            moment = min(ends[0], answers[0], arrival, timer)
            if moment == inf or (
                not arrivals
                and not timers
                and all(a.removed or a.work_end < inf for a in self.attempts)
                and answers[0] == inf
            ):
                return
            for attempt in serving:
                attempt.work_left -= moment - self.now
                self.busy_ms[attempt.replica] += moment - self.now
            self.now = moment
            if moment == ends[0]:
                serving[ends[1]].work_end = moment
            elif moment == answers[0]:
                self.answered(answers[1])
            elif moment == arrival:
                self.arrive(arrivals.pop(0)[1])
            elif moment == timer:
                _, call, may, first = timers.pop(0)
                timers = sorted([*timers, *self.timer(call, may=may, first=first)])

    def timer(self, call: int, may: bool, first: bool) -> list[tuple[float, int, bool, bool]]:
        if call in self.answer:
            if first and self.prompt_only:
                self.earn()
            return []
        again = self.send(call) if may else None
        return [] if again is None else [(again, call, True, False)]

    def arrive(self, call: int) -> None:
        one, other = (replicas[call] for replicas in self.candidates)
        if self.station.dispatch == "least" and one != other:
            order = [*self.replicas[one:], *self.replicas[:one]]
            replica = min(order, key=lambda r: len(self.outstanding(r)))
        elif self.station.dispatch == "aged" and one != other:
            replica, least = one, inf
            for r in [*self.replicas[one:], *self.replicas[:one]][:MAX_CANDIDATES]:
                score = self.score(r)
                if score < least:
                    replica, least = r, EQUAL_SCORES * score
        else:
            replica = min((one, other), key=self.score)
        if self.station.earnings and self.calls.pinned[call] < 0 and not self.prompt_only:
            self.earn()
        self.add(call, replica, float(self.calls.work[call]), float(self.calls.rest[call]))

    @property
    def prompt_only(self) -> bool:
        return self.station.earnings is not None and self.station.earnings.prompt_only

    def earn(self) -> None:
        assert self.account is not None
        self.account.earn(CALL, self.now / 1000)

    def pays(self, call: int) -> bool:
        if self.account is None:
            return True
        if self.account.refusal(CALL, self.now / 1000, denied=self.denials.get(call, 0)):
            self.denials[call] = self.denials.get(call, 0) + 1
            return False
        self.account.spend(CALL, self.now / 1000)
        return True

    def outstanding(self, replica: int) -> list[Attempt]:
        """Attempts of a replica that callers wait for."""
        return [
            a
            for a in self.attempts
            if a.replica == replica and not a.cancelled and not a.removed and a.answer_at > self.now
        ]

    def score(self, replica: int) -> float:
        self.learn(replica)
        outstanding = self.outstanding(replica)
        if self.station.dispatch != "aged":
            return len(outstanding)
        return self.estimates.score(replica, outstanding, self.now)

    def learn(self, replica: int) -> None:
        """Update the estimates with a replica's answers, which count when the replica is next asked for."""
        for attempt in sorted(self.attempts, key=lambda a: a.answer_at):
            ignored = attempt.cancelled or attempt.removed or attempt.learned
            if attempt.replica != replica or attempt.answer_at > self.now or ignored:
                continue
            attempt.learned = True
            if self.calls.pinned[attempt.call] < 0:
                latency = attempt.answer_at - attempt.arrival
                self.estimates.answered(replica, latency, attempt.answer_at)

    def add(self, call: int, replica: int, work: float, rest: float) -> None:
        self.learn(replica)
        self.attempts.append(Attempt(call, replica, work, rest, self.now))
        self.of.setdefault(call, []).append(self.attempts[-1])

    def send(self, call: int) -> float | None:
        """Send a copy; returns when to ask for another."""
        reissue = self.station.reissue
        assert reissue is not None
        taken = [a.replica for a in self.of[call]]
        left = [r for r in self.replicas if r not in taken]
        if not left:
            return None
        if not self.pays(call):
            return 2 * self.now - float(self.calls.arrival[call])
        first = int(next(self.uniforms) * len(left))
        left = left[first:] + left[:first]
        replica = left[0] if self.station.dispatch == "random" else min(left, key=self.score)
        work, rest = self.draw_copy(float(self.calls.rest[call]))
        self.add(call, replica, work, rest)
        return self.now + reissue.after_ms if len(self.of[call]) <= reissue.copies else None

    def answered(self, call: int) -> None:
        self.answer[call] = self.now
        for other in self.of[call]:
            if other.answer_at <= self.now or self.station.cancel == "none":
                continue
            self.learn(other.replica)
            self.estimates.cancelled(other.replica, self.now - other.arrival, self.now)
            other.cancelled = True
            if other.work_end < inf:
                continue
            if self.station.cancel == "running" or other not in self.in_service():
                other.removed = True


def calls_of(station: Station, utilisation: float, count: int, rng: np.random.Generator) -> SimulatedCalls:
    gap_ms = 1e3 / station.visits_per_s(utilisation)
    arrival = np.cumsum(rng.standard_exponential(count)) * gap_ms
    pinned = np.where(rng.random(count) < 0.1, rng.integers(station.replicas or 1, size=count), -1)
    work, rest = station.work.draw(rng, count), station.rest.draw(rng, count)
    return SimulatedCalls(arrival, work, rest, pinned)


def simulated_twice(
    station: Station, utilisation: float, count: int, seed: int
) -> tuple[CallOutcomes, ReferenceSimulator]:
    """The same calls through the simulator and through the reference, with the same random numbers."""
    calls = calls_of(station, utilisation, count, np.random.default_rng(seed))
    drawers = [copy_drawer(station, np.random.default_rng([seed, 2])) for _ in range(2)]
    outcomes = QueueRace(station, calls, drawers[0], np.random.default_rng([seed, 3])).run()
    reference = ReferenceSimulator(station, calls, drawers[1], np.random.default_rng([seed, 3]))
    reference.run()
    return outcomes, reference


DISPATCHES: tuple[Dispatch, ...] = get_args(Dispatch)
CANCELS: tuple[Cancel, ...] = get_args(Cancel)


@pytest.mark.parametrize("dispatch", DISPATCHES)
@pytest.mark.parametrize("cancel", CANCELS)
def test_the_simulator_equals_the_reference(cancel: Cancel, dispatch: Dispatch) -> None:
    """Every rule of dispatch and cancellation, with copies, coins and an account, call by call."""
    case = CANCELS.index(cancel) * 10 + DISPATCHES.index(dispatch)
    for i, (copies, earnings, probability) in enumerate(
        [
            (1, None, 1.0),
            (3, None, 0.7),
            (1, Earnings(bounds=LedgerBounds(fraction=0.125, burst=2 * CALL), prompt_only=False), 1.0),
            (2, Earnings(bounds=LedgerBounds(fraction=0.25, burst=3 * CALL, peak=0.5)), 0.7),
        ]
    ):
        station = Station(
            name="a",
            work=WORK,
            rest=LogNormal(5.0, 1.0),
            replicas=4,
            dispatch=dispatch,
            cancel=cancel,
            reissue=Reissue(after_ms=15.0, copies=copies, probability=probability),
            earnings=earnings,
        )
        served, reference = simulated_twice(station, 0.4, 120, 1000 * case + i)
        expected = np.array([reference.answer[call] for call in range(120)]) - reference.calls.arrival
        np.testing.assert_allclose(served.latency_ms, expected, atol=1e-6)
        np.testing.assert_array_equal(served.copies, [len(reference.of[call]) - 1 for call in range(120)])
        np.testing.assert_array_equal(served.replica, [reference.of[call][0].replica for call in range(120)])
        np.testing.assert_allclose(served.busy_ms, reference.busy_ms, atol=1e-6)
        assert served.copies.sum() > 3


class TestRules:
    @pytest.mark.slow
    def test_duplicating_everything_pays_below_a_third(self) -> None:
        """Exponential work, random replicas, no cancellation: for many replicas the threshold is 1/3 (Vulimiri 2013)."""

        def gain(utilisation: float) -> float:
            rng = np.random.default_rng(7)
            alone = Station(name="a", work=WORK, replicas=40, dispatch="random")
            twice = replace(alone, reissue=Reissue(after_ms=0.0), cancel="none")
            calls = calls_of(alone, utilisation, 150_000, rng)
            calls = replace(calls, pinned=np.full(calls.count, -1))
            means = [serve(s, calls, np.random.default_rng(7)).latency_ms.mean() for s in (alone, twice)]
            return float(means[0] / means[1])

        assert gain(0.28) > 1.04
        assert gain(0.39) < 0.96

    def test_a_copy_at_once_halves_exponential_work_when_idle(self) -> None:
        station = Station(name="a", work=WORK, replicas=50, reissue=Reissue(after_ms=0.0))
        calls = SimulatedCalls(
            np.arange(20_000.0) * 1e4,
            WORK.draw(np.random.default_rng(1), 20_000),
            np.zeros(20_000),
            np.full(20_000, -1),
        )
        served = serve(station, calls, np.random.default_rng(2))
        assert served.latency_ms.mean() == pytest.approx(5.0, rel=0.03)
        assert (served.copies == 1).all()
        assert served.extra_work_ms == pytest.approx(
            0.0, abs=0.02 * served.busy_ms.sum()
        )  # two halves are one

    def test_a_single_replica_gets_no_copies(self) -> None:
        alone = Station(name="a", work=WORK)
        calls = calls_of(alone, 0.8, 2000, np.random.default_rng(1))
        raced = replace(alone, reissue=Reissue(after_ms=5.0))
        served = [serve(station, calls, np.random.default_rng(2)) for station in (alone, raced)]
        np.testing.assert_array_equal(served[0].latency_ms, served[1].latency_ms)
        assert not served[1].copies.any()

    def test_copies_are_capped(self) -> None:
        station = Station(name="a", work=Constant(50.0), replicas=8, reissue=Reissue(after_ms=10.0, copies=3))
        calls = calls_of(station, 0.1, 500, np.random.default_rng(1))
        served = serve(station, replace(calls, pinned=np.full(500, -1)), np.random.default_rng(2))
        assert set(served.copies.tolist()) == {3}

    def test_the_account_bounds_the_copies(self) -> None:
        station = Station(
            name="a",
            work=WORK,
            replicas=4,
            reissue=Reissue(after_ms=1.0),
            earnings=Earnings(bounds=LedgerBounds(fraction=0.05, burst=5 * CALL), prompt_only=False),
        )
        calls = calls_of(station, 0.5, 10_000, np.random.default_rng(1))
        served = serve(station, calls, np.random.default_rng(2))
        assert 0.04 * 9000 < served.copies.sum() <= 5 + 0.05 * (calls.pinned < 0).sum()

    def test_copies_that_overload_their_stage_are_refused(self) -> None:
        """Without cancellation or an account waits cause copies, which cause waits: it never converges."""
        station = Station(name="busy", work=WORK, replicas=4, cancel="none", reissue=Reissue(after_ms=20.0))
        calls = calls_of(station, 0.7, 50_000, np.random.default_rng(1))
        with pytest.raises(UnstableStageError, match=r"stage 'busy'.*overload"):
            serve(station, calls, np.random.default_rng(2))

    def test_background_takes_its_stated_utilisation(self) -> None:
        background = Background(utilisation=0.25, work=Exponential(3.0))
        station = Station(name="a", work=WORK, replicas=3, background=background)
        rng = np.random.default_rng(1)
        arrival = np.cumsum(rng.standard_exponential(60_000)) * 1e3 / station.visits_per_s(0.6)
        calls = SimulatedCalls(arrival, WORK.draw(rng, 60_000), np.zeros(60_000), np.full(60_000, -1))
        served = serve(station, calls, np.random.default_rng(2))
        assert len(served.latency_ms) == len(served.copies) == 60_000
        np.testing.assert_allclose(served.busy_ms / arrival[-1], 0.6, rtol=0.05)


class TestWithoutQueues:
    def test_copies_race_without_load(self) -> None:
        station = Station(
            name="a", work=Constant(0.0), rest=WORK, replicas=None, reissue=Reissue(after_ms=0.0)
        )
        rest = WORK.draw(np.random.default_rng(1), 50_000)
        calls = SimulatedCalls(np.arange(50_000.0), np.zeros(50_000), rest, np.full(50_000, -1))
        served = serve(station, calls, np.random.default_rng(1))
        assert served.latency_ms.mean() == pytest.approx(5.0, rel=0.02)
        assert (served.latency_ms <= rest).all()
        assert served.copies.sum() == 50_000

    def test_a_coin_for_each_call(self) -> None:
        reissue = Reissue(after_ms=10.0, probability=0.25, copies=2)
        station = Station(name="a", work=Constant(0.0), rest=WORK, replicas=None, reissue=reissue)
        calls = SimulatedCalls(
            np.arange(50_000.0),
            np.zeros(50_000),
            WORK.draw(np.random.default_rng(1), 50_000),
            np.full(50_000, -1),
        )
        served = serve(station, calls, np.random.default_rng(1))
        assert (served.copies > 0).sum() == pytest.approx(0.25 * np.exp(-1) * 50_000, rel=0.05)


class TestBadInput:
    @pytest.mark.parametrize(
        ("changes", "pattern"),
        [
            ({"replicas": 0}, "stage 'a': replicas: must be a whole number"),
            ({"replicas": True}, "replicas"),
            ({"fanout": 1.5}, "fanout"),
            ({"dispatch": "best"}, "dispatch: must be one of random, envoy, two, aged, least"),
            ({"cancel": True}, "cancel: must be one of none, queued, running"),
            (
                {"replicas": None, "background": Background(utilisation=0.1, work=WORK)},
                "background: needs replicas",
            ),
        ],
    )
    def test_stations(self, changes: dict[str, Any], pattern: str) -> None:
        with pytest.raises(InputError, match=pattern):
            Station(**{"name": "a", "work": WORK, **changes})

    @pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
    def test_shares(self, value: float) -> None:
        with pytest.raises(InputError, match=r"background.utilisation"):
            Background(utilisation=value, work=WORK)

    @pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
    def test_service_times_outside_their_range_are_refused(self, value: float) -> None:
        for make in (Constant, lambda v: LogNormal(v, 1.0), lambda v: LogNormal(1.0, v)):
            with pytest.raises(InputError, match="finite number"):
                make(value)

    def test_no_work(self) -> None:
        with pytest.raises(InputError, match=r"background.work"):
            Background(utilisation=0.1, work=Constant(0.0))

    def test_a_load_that_calls_cannot_make(self) -> None:
        busy = Station(name="a", work=WORK, background=Background(utilisation=0.5, work=WORK))
        assert busy.utilisation(busy.visits_per_s(0.9)) == pytest.approx(0.9)
        for station, utilisation in ((busy, 0.4), (Station(name="a", work=WORK, replicas=None), 0.5)):
            with pytest.raises(InputError, match="cannot be reached"):
                station.visits_per_s(utilisation)
