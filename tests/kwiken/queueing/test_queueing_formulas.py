"""The queueing simulator against textbook queues: means and tails within 2%."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kwiken import InputError
from kwiken._pool import Pool
from kwiken._profile import Floats
from kwiken.queueing._formulas import (
    erlang_c,
    mg1_mean_wait_ms,
    mmk_latency_beyond,
    mmk_mean_wait_ms,
    sharing_mean_ms,
)
from kwiken.queueing._law import Constant, Empirical, Exponential, Law, LogNormal
from kwiken.queueing._race import Calls, QueueRace, Served
from kwiken.queueing._serve import serve
from kwiken.queueing._station import Background, Station

WORK = Exponential(10.0)


def poisson_calls(station: Station, utilisation: float, count: int, seed: int) -> Calls:
    rng = np.random.default_rng(seed)
    gap_ms = 1e3 / station.visits_per_s(utilisation)
    arrival = np.cumsum(rng.standard_exponential(count)) * gap_ms
    return Calls(arrival, station.work.draw(rng, count), np.zeros(count), np.full(count, -1))


def served(station: Station, utilisation: float, *, count: int = 1_000_000, seed: int = 1) -> Served:
    return serve(station, poisson_calls(station, utilisation, count, seed), np.random.default_rng(seed))


def tail(latency_ms: Floats, share: float) -> float:
    return float(np.quantile(latency_ms, 1 - share))


class TestFormulas:
    def test_one_server_is_busy_as_often_as_it_is_used(self) -> None:
        assert erlang_c(1, 0.37) == pytest.approx(0.37)

    def test_erlang_c_by_its_sum(self) -> None:
        load = 7 * 0.8
        rest = sum(load**i / math.factorial(i) for i in range(7))
        last = load**7 / math.factorial(7) / (1 - 0.8)
        assert erlang_c(7, 0.8) == pytest.approx(last / (rest + last))

    def test_many_servers_do_not_overflow(self) -> None:
        assert 0 < erlang_c(10_000, 0.99) < 1

    def test_mean_latency_is_the_integral_of_its_tail(self) -> None:
        ages = np.linspace(0, 2000, 400_001)
        beyond = [mmk_latency_beyond(3, 0.7, 10.0, age) for age in ages.tolist()]
        assert np.trapezoid(beyond, ages) == pytest.approx(10 + mmk_mean_wait_ms(3, 0.7, 10.0), rel=1e-5)

    def test_the_tail_where_both_rates_agree(self) -> None:
        near = mmk_latency_beyond(2, 0.5 + 1e-6, 10.0, 25.0)
        assert mmk_latency_beyond(2, 0.5, 10.0, 25.0) == pytest.approx(near, rel=1e-4)

    @pytest.mark.parametrize("utilisation", [-0.1, 1.0, 1.5, math.nan])
    def test_a_queue_that_never_settles(self, utilisation: float) -> None:
        with pytest.raises(InputError, match="below 1"):
            erlang_c(2, utilisation)
        with pytest.raises(InputError, match="below 1"):
            mg1_mean_wait_ms(utilisation, WORK)

    def test_no_servers(self) -> None:
        with pytest.raises(InputError, match="servers"):
            erlang_c(0, 0.5)


class TestInOrderOfArrival:
    @pytest.mark.parametrize(
        ("servers", "utilisation", "count"),
        [(1, 0.5, 2_000_000), (1, 0.8, 4_000_000), (2, 0.7, 2_000_000), (4, 0.8, 3_000_000)],
    )
    def test_mmk(self, servers: int, utilisation: float, count: int) -> None:
        """One replica of k workers is M/M/k."""
        station = Station(name="a", work=WORK, workers=servers)
        got = served(station, utilisation, count=count)
        assert got.wait_ms.mean() == pytest.approx(mmk_mean_wait_ms(servers, utilisation, 10.0), rel=0.02)
        assert (got.wait_ms > 1e-6).mean() == pytest.approx(erlang_c(servers, utilisation), rel=0.02)
        for share in (0.5, 0.1, 0.01):  # each percentile within 2%: the true law has the share between
            age = tail(got.latency_ms, share)
            assert mmk_latency_beyond(servers, utilisation, 10.0, age * 1.02) < share
            assert mmk_latency_beyond(servers, utilisation, 10.0, age / 1.02) > share

    @pytest.mark.parametrize(
        ("law", "utilisation"),
        [(Constant(10.0), 0.8), (LogNormal(10.0, 0.5), 0.7), (LogNormal(10.0, 1.5), 0.5)],
    )
    def test_mg1(self, law: Law, utilisation: float) -> None:
        got = served(Station(name="a", work=law), utilisation, count=2_000_000)
        assert got.wait_ms.mean() == pytest.approx(mg1_mean_wait_ms(utilisation, law), rel=0.02)

    def test_measured_times(self) -> None:
        law = Empirical(Pool.of(np.array([1.0, 2.0, 2.0, 5.0, 40.0])))
        got = served(Station(name="a", work=law), 0.6)
        assert got.wait_ms.mean() == pytest.approx(mg1_mean_wait_ms(0.6, law), rel=0.02)

    def test_random_replicas_are_as_many_single_queues(self) -> None:
        got = served(Station(name="a", work=WORK, replicas=7, dispatch="random"), 0.7)
        assert got.wait_ms.mean() == pytest.approx(mmk_mean_wait_ms(1, 0.7, 10.0), rel=0.02)

    def test_background_waits_in_the_same_queues(self) -> None:
        """Poisson streams add up, so the wait is that of their mixture (Pollaczek-Khinchine)."""
        background = Background(utilisation=0.3, work=Constant(4.0))
        station = Station(name="a", work=WORK, replicas=3, dispatch="random", background=background)
        got = served(station, 0.7)
        residual = (0.4 * WORK.square_ms2 / WORK.mean_ms + 0.3 * 4.0) / 2
        assert got.wait_ms.mean() == pytest.approx(residual / (1 - 0.7), rel=0.02)
        assert len(got.wait_ms) == 1_000_000

    def test_two_choices_and_least_loaded(self) -> None:
        """Many replicas: mean work times the sum of rho^(2^i - 2) over i (Mitzenmacher 2001)."""
        limit = 10 * sum(0.9 ** (2**i - 2) for i in range(1, 12))
        two = served(Station(name="a", work=WORK, replicas=100, dispatch="two"), 0.9, count=400_000)
        assert two.latency_ms.mean() == pytest.approx(limit, rel=0.03)
        few = Station(name="a", work=WORK, replicas=4, dispatch="least")
        joined = served(few, 0.8, count=200_000).latency_ms.mean()
        shared = 10 + mmk_mean_wait_ms(4, 0.8, 10.0)
        assert shared < joined < served(few_two(), 0.8, count=200_000).latency_ms.mean()

    def test_both_ways_of_computing_agree(self) -> None:
        """Random replicas go by Lindley's recursion; the same draws moment by moment give the same."""
        station = Station(name="a", work=WORK, replicas=3, workers=2, dispatch="random")
        calls = poisson_calls(station, 0.8, 5000, 3)
        quick = serve(station, calls, np.random.default_rng(5))
        dispatch = np.random.default_rng(5).spawn(4)[0]
        slow = QueueRace(station, calls, [None] * 3, lambda *_: (0.0, 0.0), dispatch).run()
        np.testing.assert_allclose(quick.latency_ms, slow.latency_ms, atol=1e-7)
        np.testing.assert_array_equal(quick.replica, slow.replica)
        np.testing.assert_allclose(quick.worked_ms, slow.worked_ms)


def few_two() -> Station:
    return Station(name="a", work=WORK, replicas=4, dispatch="two")


class TestSharing:
    @pytest.mark.parametrize("law", [WORK, Constant(10.0), LogNormal(10.0, 1.5)])
    def test_mean_latency_by_work(self, law: Law) -> None:
        """M/G/1-PS: a call of work x takes x / (1 - rho) on average, whatever the law."""
        station = Station(name="a", work=law, discipline="sharing")
        calls = poisson_calls(station, 0.6, 600_000, 2)
        got = serve(station, calls, np.random.default_rng(2)).latency_ms
        assert got.mean() == pytest.approx(sharing_mean_ms(0.6, 10.0), rel=0.02)
        large = calls.work >= np.median(calls.work)
        expected = sharing_mean_ms(0.6, float(calls.work[large].mean()))
        assert got[large].mean() == pytest.approx(expected, rel=0.02)

    def test_several_cores(self) -> None:
        """With exponential work the number present, so the mean latency, is that of M/M/k."""
        station = Station(name="a", work=WORK, workers=4, discipline="sharing")
        got = served(station, 0.8, count=800_000)
        assert got.latency_ms.mean() == pytest.approx(10 + mmk_mean_wait_ms(4, 0.8, 10.0), rel=0.02)
