"""Queueing simulator against textbook queues: means and tails within 2%."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kwiken.base.arrays import Floats
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.tail.queueing.simulator.calls import CallOutcomes, SimulatedCalls
from kwiken.tail.queueing.simulator.race import QueueRace
from kwiken.tail.queueing.simulator.service_times import Constant, Empirical, LogNormal, ServiceTimes
from kwiken.tail.queueing.simulator.stage import serve
from kwiken.tail.queueing.simulator.station import Background, Station
from tests.support.models.distributions import Exponential
from tests.support.models.queue_formulas import (
    erlang_c,
    mg1_mean_wait_ms,
    mm1_latency_beyond,
    mmk_mean_wait_ms,
)

WORK = Exponential(10.0)
MEASURED = np.array([1.0, 2.0, 2.0, 5.0, 40.0])


def poisson_calls(station: Station, utilisation: float, count: int, seed: int) -> SimulatedCalls:
    rng = np.random.default_rng(seed)
    gap_ms = 1e3 / station.visits_per_s(utilisation)
    arrival = np.cumsum(rng.standard_exponential(count)) * gap_ms
    return SimulatedCalls(arrival, station.work.draw(rng, count), np.zeros(count), np.full(count, -1))


def served(station: Station, utilisation: float, *, count: int = 1_000_000, seed: int = 1) -> CallOutcomes:
    return serve(station, poisson_calls(station, utilisation, count, seed), np.random.default_rng(seed))


def waits(station: Station, utilisation: float, *, count: int = 1_000_000) -> Floats:
    calls = poisson_calls(station, utilisation, count, 1)
    return serve(station, calls, np.random.default_rng(1)).latency_ms - calls.work


def test_erlang_c_by_its_sum() -> None:
    load = 7 * 0.8
    rest = sum(load**i / math.factorial(i) for i in range(7))
    last = load**7 / math.factorial(7) / (1 - 0.8)
    assert erlang_c(7, 0.8) == pytest.approx(last / (rest + last))
    assert erlang_c(1, 0.37) == pytest.approx(0.37)


class TestInOrderOfArrival:
    @pytest.mark.parametrize(
        ("utilisation", "count"), [(0.5, 2_000_000), pytest.param(0.8, 4_000_000, marks=pytest.mark.slow)]
    )
    def test_mm1(self, utilisation: float, count: int) -> None:
        waited = waits(Station(name="a", work=WORK), utilisation, count=count)
        assert waited.mean() == pytest.approx(mmk_mean_wait_ms(1, utilisation, 10.0), rel=0.02)
        assert (waited > 1e-6).mean() == pytest.approx(utilisation, rel=0.02)
        latency_ms = served(Station(name="a", work=WORK), utilisation, count=count).latency_ms
        for share in (0.5, 0.1, 0.01):  # each percentile within 2%: the true law has the share between
            age = float(np.quantile(latency_ms, 1 - share))
            assert mm1_latency_beyond(utilisation, 10.0, age * 1.02) < share
            assert mm1_latency_beyond(utilisation, 10.0, age / 1.02) > share

    @pytest.mark.parametrize(
        ("distribution", "square_ms2", "utilisation"),
        [
            (Constant(10.0), 100.0, 0.8),
            (LogNormal(10.0, 0.5), 100.0 * (1 + 0.5**2), 0.7),
            (LogNormal(10.0, 1.5), 100.0 * (1 + 1.5**2), 0.5),
            (Empirical(EmpiricalDistribution.of(MEASURED)), float((MEASURED**2).mean()), 0.6),
        ],
    )
    def test_mg1(self, distribution: ServiceTimes, square_ms2: float, utilisation: float) -> None:
        waited = waits(Station(name="a", work=distribution), utilisation, count=2_000_000)
        assert waited.mean() == pytest.approx(
            mg1_mean_wait_ms(utilisation, distribution.mean_ms, square_ms2), rel=0.02
        )

    def test_random_replicas_are_as_many_single_queues(self) -> None:
        waited = waits(Station(name="a", work=WORK, replicas=7, dispatch="random"), 0.7)
        assert waited.mean() == pytest.approx(mmk_mean_wait_ms(1, 0.7, 10.0), rel=0.02)

    def test_background_waits_in_the_same_queues(self) -> None:
        """Poisson streams add up, so the wait is that of their mixture (Pollaczek-Khinchine)."""
        background = Background(utilisation=0.3, work=Constant(4.0))
        station = Station(name="a", work=WORK, replicas=3, dispatch="random", background=background)
        waited = waits(station, 0.7)
        residual = (0.4 * 200.0 / 10.0 + 0.3 * 4.0) / 2
        assert waited.mean() == pytest.approx(residual / (1 - 0.7), rel=0.02)

    def test_two_choices_and_least_loaded(self) -> None:
        """Many replicas: mean work times the sum of rho^(2^i - 2) over i (Mitzenmacher 2001)."""
        limit = 10 * sum(0.9 ** (2**i - 2) for i in range(1, 12))
        two = served(Station(name="a", work=WORK, replicas=100, dispatch="two"), 0.9, count=200_000)
        assert two.latency_ms.mean() == pytest.approx(limit, rel=0.03)
        few = Station(name="a", work=WORK, replicas=4, dispatch="least")
        joined = served(few, 0.8, count=100_000).latency_ms.mean()
        one_queue = 10 + mmk_mean_wait_ms(4, 0.8, 10.0)
        few_two = Station(name="a", work=WORK, replicas=4, dispatch="two")
        assert one_queue < joined < served(few_two, 0.8, count=100_000).latency_ms.mean()

    def test_both_ways_of_computing_agree(self) -> None:
        """Random replicas go by Lindley's recursion; the same draws moment by moment give the same."""
        station = Station(name="a", work=WORK, replicas=3, dispatch="random")
        calls = poisson_calls(station, 0.8, 5000, 3)
        quick = serve(station, calls, np.random.default_rng(5))
        dispatch = np.random.default_rng(5).spawn(3)[0]
        slow = QueueRace(station, calls, lambda _: (0.0, 0.0), dispatch).run()
        np.testing.assert_allclose(quick.latency_ms, slow.latency_ms, atol=1e-7)
        np.testing.assert_array_equal(quick.replica, slow.replica)
        np.testing.assert_allclose(quick.busy_ms, slow.busy_ms)
