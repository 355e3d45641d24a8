"""Pauses of replicas in the simulator: exact, the same by both ways of serving, and as often as asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.simulator.calls import SimulatedCalls
from kwiken.tail.queueing.simulator.pauses import PausedClock, Pauses
from kwiken.tail.queueing.simulator.race import QueueRace
from kwiken.tail.queueing.simulator.service_times import Constant
from kwiken.tail.queueing.simulator.stage import copy_drawer, serve
from kwiken.tail.queueing.simulator.station import Station

LENGTHS = EmpiricalDistribution(np.array([20.0, 60.0]), np.array([0.75, 0.25]))
PAUSES = Pauses(1e-3, LENGTHS)
Pair = tuple[float, float]

gaps_and_lengths = st.lists(st.tuples(st.floats(0.1, 50.0), st.floats(0.1, 50.0)), max_size=6)


def clock_of(pairs: list[Pair]) -> PausedClock:
    """Clock of a replica that runs and is paused in turn."""
    runs, length = np.array(pairs).reshape(-1, 2).T
    return PausedClock(np.cumsum(runs) + np.cumsum(length) - length, length)


def calls_of(count: int, gap_ms: float, work_ms: float, seed: int) -> SimulatedCalls:
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.standard_exponential(count)) * gap_ms
    work = rng.standard_exponential(count) * work_ms
    return SimulatedCalls(arrival, work, np.zeros(count), np.full(count, -1))


class TestClock:
    @given(gaps_and_lengths, st.floats(0.0, 400.0), st.floats(0.01, 100.0))
    def test_work_takes_its_time_and_the_pauses_in_it(
        self, pairs: list[Pair], at: float, work: float
    ) -> None:
        clock = clock_of(pairs)
        begin, end = clock.served(at, work)
        assert at <= begin < end
        assert clock.ran(begin) == pytest.approx(clock.ran(at))
        assert clock.ran(end) - clock.ran(begin) == pytest.approx(work, abs=1e-6)

    @given(gaps_and_lengths, st.lists(st.floats(0.0, 400.0), min_size=1))
    def test_running_time_is_the_same_for_one_moment_and_for_many(
        self, pairs: list[Pair], moments: list[float]
    ) -> None:
        clock = clock_of(pairs)
        many = clock.running(np.array(moments))
        np.testing.assert_allclose(many, [clock.ran(at) for at in moments], atol=1e-6)
        np.testing.assert_allclose(clock.running(clock.moments(many)), many, atol=1e-6)
        assert (clock.moments(many) <= np.array(moments) + 1e-6).all()

    def test_a_call_in_a_pause_begins_at_its_end_and_one_before_is_held_up(self) -> None:
        clock = PausedClock(np.array([10.0, 40.0]), np.array([5.0, 20.0]))
        assert clock.served(12.0, 1.0) == (15.0, 16.0)
        assert clock.served(8.0, 3.0) == (8.0, 16.0)
        assert clock.served(8.0, 2.0) == (8.0, 10.0)
        assert clock.served(14.0, 30.0) == (15.0, 65.0)
        assert clock.running(np.array([5.0, 12.0, 15.0, 70.0])).tolist() == [5.0, 10.0, 10.0, 45.0]


class TestServing:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 1000), gaps_and_lengths)
    def test_one_replica_is_served_alike_in_one_pass_and_event_by_event(
        self, seed: int, pairs: list[Pair]
    ) -> None:
        station = Station(name="a", work=Constant(1.0), replicas=1)
        calls, clock = calls_of(60, 4.0, 2.0, seed), clock_of(pairs)
        rng = np.random.default_rng(0)
        events = QueueRace(station, calls, copy_drawer(station, rng), rng, [clock]).run().latency_ms
        at, ends = 0.0, []
        for arrival, work in zip(calls.arrival.tolist(), calls.work.tolist(), strict=True):
            _, at = clock.served(max(at, arrival), work)
            ends.append(at)
        np.testing.assert_allclose(events, np.array(ends) - calls.arrival, atol=1e-6)

    @pytest.mark.parametrize("dispatch", ["random", "two"])
    @pytest.mark.parametrize("replicas", [1, 3])
    def test_paused_replicas_lose_their_time_and_no_work(self, dispatch: str, replicas: int) -> None:
        calls = calls_of(20_000, 5.0, 2.0, 3)
        plain, paused = (
            serve(
                Station(name="a", work=Constant(2.0), replicas=replicas, dispatch=dispatch, pauses=pauses),  # type: ignore[arg-type]
                calls,
                np.random.default_rng(1),
            )
            for pauses in (None, PAUSES)
        )
        assert paused.busy_ms.sum() == pytest.approx(plain.busy_ms.sum()) == pytest.approx(calls.work.sum())
        assert np.percentile(paused.latency_ms, 99) > np.percentile(plain.latency_ms, 99)

    def test_calls_avoid_a_paused_replica_that_has_calls_without_an_answer(self) -> None:
        calls = calls_of(20_000, 5.0, 2.0, 4)
        slow = []
        for dispatch in ("random", "envoy", "two"):
            station = Station(
                name="a",
                work=Constant(2.0),
                replicas=2,
                dispatch=dispatch,
                pauses=PAUSES,
            )
            latency_ms = serve(station, calls, np.random.default_rng(1)).latency_ms
            slow.append(float((latency_ms > 20.0).mean()))
        assert slow[0] > 1.3 * slow[1] > 1.3 * slow[2]

    @pytest.mark.parametrize("cancel", ["none", "queued", "running"])
    def test_copies_leave_a_paused_replica_and_cancelled_calls_leave_their_work(self, cancel: str) -> None:
        calls = calls_of(20_000, 5.0, 2.0, 5)
        policy = Reissue(after_ms=15.0)
        plain, copied = (
            serve(
                Station(
                    name="a",
                    work=Constant(2.0),
                    replicas=3,
                    pauses=PAUSES,
                    reissue=reissue,
                    cancel=cancel,  # type: ignore[arg-type]
                ),
                calls,
                np.random.default_rng(2),
            )
            for reissue in (None, policy)
        )
        assert copied.copies.sum() > 0
        assert np.percentile(copied.latency_ms, 99.5) < np.percentile(plain.latency_ms, 99.5) - 5.0
        assert copied.busy_ms.sum() >= calls.work.sum() - (
            0.0 if cancel == "none" else calls.work.max() * 200
        )
        assert (copied.latency_ms > 0).all()


class TestDrawn:
    def test_replicas_pause_as_often_and_as_long_as_asked(self) -> None:
        clocks = PAUSES.drawn(4, 1e6, np.random.default_rng(0))
        ran_ms = np.array([clock.ran(1e6) for clock in clocks])
        assert (1e6 - ran_ms).sum() / ran_ms.sum() == pytest.approx(1e-3 * PAUSES.mean_ms, rel=0.03)
        assert PAUSES.mean_ms == 30.0

    def test_few_pauses_are_spread_over_the_replicas(self) -> None:
        """A pause for every third replica: eight of 24, give or take the rounding."""
        for seed in range(20):
            clocks = PAUSES.drawn(24, 1e3 / 3, np.random.default_rng(seed))
            paused = sum(clock.ran(1e6) < 1e6 for clock in clocks)
            assert 6 <= paused <= 10

    def test_a_replica_pauses_alike_beside_few_and_many(self) -> None:
        few, many = (PAUSES.drawn(count, 1e5, np.random.default_rng(3)) for count in (1, 5))
        at = np.linspace(0.0, 1.2e5, 50)
        assert np.array_equal(few[0].running(at), many[0].running(at))

    def test_no_pauses_are_no_pauses(self) -> None:
        clock = Pauses(0.0, LENGTHS).drawn(1, 1e5, np.random.default_rng(0))[0]
        assert clock.served(3.0, 4.0) == (3.0, 7.0)

    @pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
    def test_a_rate_that_is_none_is_refused(self, rate: float) -> None:
        with pytest.raises(InputError, match=r"pauses\.per_ms: must be a finite number >= 0"):
            Pauses(rate, LENGTHS)

    def test_a_stage_without_replicas_has_none_that_pause(self) -> None:
        with pytest.raises(InputError, match="'a': pauses: needs replicas"):
            Station(name="a", work=Constant(1.0), replicas=None, pauses=PAUSES)
