"""Requests through a DAG of queues: networks with known answers, and invariances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.simulator.network import Primaries, poisson_arrivals, simulate_queues
from kwiken.tail.queueing.simulator.service_times import Constant, LogNormal
from kwiken.tail.queueing.simulator.station import Station
from tests.support.models.distributions import Exponential

WORK = Exponential(10.0)


def arrivals_at(utilisation: float, count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return poisson_arrivals(
        Station(name="x", work=WORK).visits_per_s(utilisation), count, np.random.default_rng(seed)
    )


class TestKnownNetworks:
    def test_tandem_of_two(self) -> None:
        """M/M/1 in a row: the output of one is Poisson (Burke 1956), and times in both are independent."""
        chain = [Station(name="a", work=WORK), Station(name="b", after=("a",), work=WORK)]
        found = simulate_queues(
            chain, arrivals_at(0.6, 1_000_000, 1), rng=np.random.default_rng(1), warm_up=1000
        )
        assert found.latency_ms.mean() == pytest.approx(2 * 10 / 0.4, rel=0.02)
        # The sum of two exponentials of 25 ms: its 99th percentile is 6.638 times one's mean.
        assert np.percentile(found.latency_ms, 99) == pytest.approx(6.638 * 25.0, rel=0.02)

    def test_fork_and_join_of_two(self) -> None:
        """Two M/M/1 side by side: mean (12 - rho) / 8 times that of one (Flatto and Hahn 1984)."""
        forks = [Station(name=name, work=WORK) for name in ("a", "b")]
        join = Station(name="c", after=("a", "b"), work=Constant(0.0), replicas=None)
        found = simulate_queues(
            [*forks, join], arrivals_at(0.6, 1_000_000, 2), rng=np.random.default_rng(2), warm_up=1000
        )
        assert found.latency_ms.mean() == pytest.approx((12 - 0.6) / 8 * 10 / 0.4, rel=0.02)

    def test_a_fan_out_lasts_as_long_as_its_slowest_call(self) -> None:
        """Idle replicas: the mean of the largest of four exponentials is 1 + 1/2 + 1/3 + 1/4 times one's."""
        station = Station(name="a", work=WORK, fanout=4, replicas=100, dispatch="least")
        found = simulate_queues(
            [station], np.arange(0.0, 50_000 * 500.0, 500.0), rng=np.random.default_rng(3)
        )
        assert found.latency_ms.mean() == pytest.approx(10 * 25 / 12, rel=0.02)
        assert (found.stages["a"].calls == 4).all()

    def test_utilisation_is_what_was_asked_for(self) -> None:
        station = Station(name="a", work=LogNormal(10.0, 1.0), replicas=5)
        arrivals = poisson_arrivals(station.visits_per_s(0.7), 200_000, np.random.default_rng(4))
        found = simulate_queues([station], arrivals, rng=np.random.default_rng(4))
        np.testing.assert_allclose(found.stages["a"].utilisation, 0.7, rtol=0.03)


class TestRules:
    def test_without_queues_latency_is_that_of_the_dag(self) -> None:
        rng = np.random.default_rng(5)
        stations = [
            Station(name="a", work=Constant(0.0), replicas=None),
            Station(name="b", after=("a",), work=Constant(0.0), replicas=None),
            Station(name="c", after=("a",), work=Constant(0.0), replicas=None),
            Station(name="d", after=("b", "c"), work=Constant(0.0), replicas=None),
        ]
        rests = {station.name: rng.random((300, 1)) * 20 for station in stations}
        given = {name: Primaries(np.zeros_like(rest), rest) for name, rest in rests.items()}
        found = simulate_queues(stations, np.arange(300.0), rng=rng, given=given)
        whole = end_to_end(stations, {name: rest[:, 0] for name, rest in rests.items()})
        np.testing.assert_allclose(found.latency_ms, whole)

    def test_calls_of_one_moment_give_no_utilisation(self) -> None:
        found = simulate_queues(
            [Station(name="a", work=Constant(4.0), replicas=2)], np.zeros(2), rng=np.random.default_rng(0)
        )
        assert found.stages["a"].utilisation.tolist() == [0.0, 0.0]

    def test_the_order_of_stations_is_free(self) -> None:
        chain = [Station(name="b", after=("a",), work=WORK), Station(name="a", work=WORK)]
        found = simulate_queues(chain, arrivals_at(0.5, 1000, 6), rng=np.random.default_rng(6))
        assert (found.latency_ms >= found.stages["b"].latency_ms).all()

    def test_skipped_stages_take_no_time(self) -> None:
        work = np.full((100, 2), 5.0)
        work[::2] = np.nan
        work[1, 1] = np.nan
        given = {"a": Primaries(work, np.where(np.isnan(work), np.nan, 1.0))}
        station = Station(name="a", work=WORK, fanout=2, replicas=4)
        found = simulate_queues(
            [station], np.arange(0.0, 5000.0, 50.0), rng=np.random.default_rng(7), given=given
        )
        assert (found.latency_ms[::2] == 0).all()
        np.testing.assert_allclose(found.latency_ms[1::2], 6.0)
        assert found.stages["a"].calls.tolist()[:4] == [0, 1, 0, 2]

    def test_the_first_requests_do_not_count(self) -> None:
        stations = [Station(name="a", work=WORK, replicas=3, reissue=Reissue(after_ms=10.0))]
        arrivals = arrivals_at(0.5, 2000, 8)
        whole, later = (
            simulate_queues(stations, arrivals, rng=np.random.default_rng(8), warm_up=count)
            for count in (0, 500)
        )
        np.testing.assert_array_equal(whole.latency_ms[500:], later.latency_ms)
        assert later.stages["a"].fraction == whole.stages["a"].copies[500:].sum() / 1500

    def test_what_a_policy_does_not_change_stays(self) -> None:
        """A reissue downstream leaves the stage before it as it was, to the last call."""
        chain = [
            Station(name="a", work=WORK, replicas=2),
            Station(name="b", after=("a",), work=WORK, replicas=2),
        ]
        arrivals = arrivals_at(0.8, 3000, 9)
        raced = [chain[0], replace(chain[1], reissue=Reissue(after_ms=20.0))]
        one, other = (simulate_queues(s, arrivals, rng=np.random.default_rng(9)) for s in (chain, raced))
        np.testing.assert_array_equal(one.stages["a"].latency_ms, other.stages["a"].latency_ms)
        assert other.stages["b"].copies.any()
        unhurt = one.stages["b"].latency_ms < 20
        same = one.stages["b"].latency_ms == other.stages["b"].latency_ms
        assert same[unhurt].mean() > 0.5


class TestBadInput:
    def test_arrivals(self) -> None:
        station = Station(name="a", work=WORK)
        for bad in ([2.0, 1.0], [-1.0, 2.0], [0.0, np.inf], [[0.0]]):
            with pytest.raises(InputError, match="arrivals_ms"):
                simulate_queues([station], np.array(bad), rng=np.random.default_rng(1))
        with pytest.raises(InputError, match="warm_up"):
            simulate_queues([station], np.arange(3.0), rng=np.random.default_rng(1), warm_up=3)

    @pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf])
    def test_rates(self, rate: float) -> None:
        with pytest.raises(InputError, match="rate"):
            poisson_arrivals(rate, 10, np.random.default_rng(1))

    def test_primaries(self) -> None:
        station = Station(name="a", work=WORK)
        ones = np.ones((3, 1))
        for work, rest, pattern in (
            (np.ones((2, 1)), np.ones((2, 1)), "3 rows"),
            (ones, np.ones((3, 2)), "3 rows"),
            (ones, -ones, ">= 0"),
            (ones, np.full((3, 1), np.nan), "NaN"),
        ):
            with pytest.raises(InputError, match=pattern):
                simulate_queues(
                    [station],
                    np.arange(3.0),
                    rng=np.random.default_rng(1),
                    given={"a": Primaries(work, rest)},
                )

    def test_a_cycle(self) -> None:
        stations = [Station(name="a", after=("b",), work=WORK), Station(name="b", after=("a",), work=WORK)]
        with pytest.raises(InputError, match="cycle"):
            simulate_queues(stations, np.arange(3.0), rng=np.random.default_rng(1))
