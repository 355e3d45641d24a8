"""Generators and platforms of simulated fleets: what is specified, and what managers predict from it."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.allocator.workloads import SOURCES, Measure, Size
from kwiken.lab.fleet.behaviour import ENTRIES_AGAIN, Knowledge, predicted
from kwiken.lab.fleet.generators import (
    CONTENDED,
    MAX_CAUSED,
    MIN_TOLERATED,
    contention_scores,
    platform_response,
)
from kwiken.lab.fleet.platforms import CLOUD, LOCAL, cloud, cluster_of
from kwiken.lab.fleet.targets import random_reservations, reserved_by_user
from kwiken.lab.fleet.world import behaviour_of


def test_clusters_have_as_many_nodes_and_cores_as_the_sources_say() -> None:
    local = cluster_of(LOCAL)
    assert (len(local.nodes), float(local.cores.sum()), float(local.memory_gb.sum())) == (40, 178.0, 696.0)
    whole = cluster_of(CLOUD)
    assert (len(whole.nodes), len(whole.classes), float(whole.cores.sum())) == (1000, 14, 4960.0)
    part = cluster_of(cloud(200))
    assert (len(part.nodes), float(part.cores.sum())) == (200, 992.0)
    assert len({node.name for node in part.nodes}) == 200


@pytest.mark.parametrize("servers", [0, 100, 250, 200_000])
def test_a_cloud_keeps_its_proportions(servers: int) -> None:
    with pytest.raises(ValueError, match="multiple of 200"):
        cloud(servers)


def test_an_application_is_near_its_best_on_about_six_platforms_of_ten() -> None:
    response = platform_response(np.random.default_rng(0), 2000, LOCAL)
    assert response.max(axis=1) == pytest.approx(np.ones(2000))
    assert 0 < response.min() < 0.3
    assert 5 < (response >= 0.95).sum(axis=1).mean() < 7


def test_scores_stay_in_their_ranges_for_ten_sources() -> None:
    assert len(CONTENDED) == 10
    assert not any(SOURCES[place].startswith("cpu-") for place in CONTENDED)
    tolerated, caused = contention_scores(np.random.default_rng(1), 500)
    assert tolerated.shape == caused.shape == (500, 10)
    assert MIN_TOLERATED <= tolerated.min() < tolerated.max() <= 1
    assert 0 <= caused.min() < caused.max() <= MAX_CAUSED
    assert np.median(caused) < MAX_CAUSED / 3  # most applications press hard on few sources


def test_reservations_exceed_the_need_as_the_source_says() -> None:
    factors = random_reservations(np.random.default_rng(2), 200_000)
    assert factors.mean() == pytest.approx(2.935, abs=0.02)
    assert (factors > 1).mean() == pytest.approx(0.7, abs=0.01)
    assert (factors < 1).mean() == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    ("factor", "replicas", "alone"),
    [(1.0, 3, (4, 8)), (2.5, 8, (12, 32)), (0.3, 1, (2, 4)), (10.0, 30, (24, 48))],
)
def test_a_factor_changes_the_replicas_or_the_size_of_a_program_on_one_node(
    factor: float, replicas: int, alone: tuple[int, int]
) -> None:
    need = Size(4.0, 8.0)
    several = reserved_by_user(need, 3, factor, one_node=False)
    assert (several.size, several.replicas) == (need, replicas)
    single = reserved_by_user(need, 1, factor, one_node=True)
    assert ((single.size.cores, single.size.memory_gb), single.replicas) == (alone, 1)


def test_predictions_are_better_the_more_is_known() -> None:
    rng = np.random.default_rng(3)
    everything = behaviour_of(rng, 90, LOCAL, one_size=False)
    truth, known = everything.part(0, 60), everything.part(60, 90)
    exact = predicted(truth, known, Knowledge.TRUE, rng)
    assert exact is truth
    published = predicted(truth, known, Knowledge.PUBLISHED, np.random.default_rng(4))
    chosen = predicted(truth, known, Knowledge.CHOSEN, np.random.default_rng(4))
    for what in ("up", "het", "tolerated", "caused"):
        missed = [np.abs(getattr(each, what) - getattr(truth, what)).mean() for each in (published, chosen)]
        plain = np.abs(getattr(known, what).mean(axis=0) - getattr(truth, what)).mean()
        assert missed[1] < missed[0], what
        assert missed[1] < plain, what
    again = predicted(truth, known, Knowledge.PUBLISHED, np.random.default_rng(4), ENTRIES_AGAIN)
    for what in ("up", "het", "tolerated", "caused"):
        missed = [np.abs(getattr(each, what) - getattr(truth, what)).mean() for each in (published, again)]
        assert missed[1] < missed[0], what
    assert not published.deviations
    assert all((values >= 0).all() for values in chosen.deviations.values())
    assert np.abs(published.out[:, 0]).max() == 0


def test_a_profile_carries_scores_to_their_sources() -> None:
    truth = behaviour_of(np.random.default_rng(5), 2, LOCAL, one_size=True)
    profile = truth.profile(1, "one", Measure.IPS, (Size(2.0, 3.0),), tuple(one.name for one in LOCAL))
    assert profile.tolerated.mean[list(CONTENDED)] == pytest.approx(truth.tolerated[1])
    others = np.setdiff1d(np.arange(len(SOURCES)), CONTENDED)
    assert profile.tolerated.mean[others] == pytest.approx(np.ones(3))
    assert profile.caused.mean[others] == pytest.approx(np.zeros(3))
    assert not profile.het.deviation.any()
