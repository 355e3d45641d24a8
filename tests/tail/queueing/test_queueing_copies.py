"""Correlated copies in the queueing simulator: the given correlation, and the distribution of rests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import kstest, spearmanr

from kwiken.base.arrays import Floats
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.simulator.calls import SimulatedCalls
from kwiken.tail.queueing.simulator.race import QueueRace
from kwiken.tail.queueing.simulator.service_times import Constant, Empirical
from kwiken.tail.queueing.simulator.stage import copy_drawer, race_without_queues
from kwiken.tail.queueing.simulator.station import Station

RESTS = np.random.default_rng(27).lognormal(2.0, 0.8, 4000)


def correlated_copies(rests_ms: Floats, rho: float, *, weights: Sequence[float] | None = None) -> Floats:
    """(n,): the rest of a copy of each call."""
    pool = EmpiricalDistribution.of(RESTS)
    if weights is not None:
        pool = EmpiricalDistribution(pool.values, np.asarray(weights))
    station = Station(name="a", work=Constant(2.0), rest=Empirical(pool), copy_correlation=rho)
    copies = copy_drawer(station, np.random.default_rng(20))
    return np.array([copies(rest)[1] for rest in rests_ms.tolist()])


@pytest.mark.parametrize("rho", [0.4, 0.9])
def test_rests_have_the_given_correlation(rho: float) -> None:
    calls = EmpiricalDistribution.of(RESTS).draw(np.random.default_rng(21), 12_000)
    copies = correlated_copies(calls, rho)
    of_gaussians = 6 / np.pi * np.arcsin(rho / 2)  # Spearman's, of a Gaussian copula
    assert spearmanr(calls, copies).statistic == pytest.approx(of_gaussians, abs=0.03)
    assert kstest(copies, RESTS).statistic < 0.02


def test_without_a_correlation_a_copy_rests_on_its_own() -> None:
    calls = EmpiricalDistribution.of(RESTS).draw(np.random.default_rng(22), 12_000)
    assert abs(spearmanr(calls, correlated_copies(calls, 0.0)).statistic) < 0.03


def test_weights_count() -> None:
    """Rests with half of the weight on the shortest tenth: so is the law of copies."""
    weights = np.ones(len(RESTS))
    weights[: len(RESTS) // 10] = 9.0
    weights /= weights.sum()
    pool = EmpiricalDistribution(np.sort(RESTS), weights)
    copies = correlated_copies(pool.draw(np.random.default_rng(24), 12_000), 0.8, weights=weights.tolist())
    for share in (0.25, 0.5, 0.75, 0.9):
        limit = float(pool.quantile(np.array([share]))[0])
        assert (copies <= limit).mean() == pytest.approx(share, abs=0.02)


@given(rest_ms=st.floats(0, 2e3), rho=st.floats(0.01, 0.99))
@settings(deadline=None)
def test_copies_of_any_rest_are_measured_values(rest_ms: float, rho: float) -> None:
    assert np.isin(correlated_copies(np.full(20, rest_ms), rho), RESTS).all()


@pytest.mark.parametrize("replicas", [None, 3])
def test_a_copy_is_drawn_for_the_rest_of_its_call(replicas: int | None) -> None:
    station = Station(name="a", work=Constant(4.0), replicas=replicas, reissue=Reissue(after_ms=10.0))
    calls = SimulatedCalls(np.array([0.0, 100.0]), np.full(2, 4.0), np.array([50.0, 60.0]), np.full(2, -1))
    asked: list[float] = []

    def copies(rest_ms: float) -> tuple[float, float]:
        asked.append(rest_ms)
        return 4.0, 0.0

    rng = np.random.default_rng(0)
    if replicas is None:
        found = race_without_queues(station, calls, copies, rng)
    else:
        found = QueueRace(station, calls, copies, rng).run()
    assert asked == [50.0, 60.0]
    assert found.latency_ms == pytest.approx([14.0, 14.0])
