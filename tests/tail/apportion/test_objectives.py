"""Objectives `tail` and `variance`, and paired simulation of allocations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.simulation.common_random_numbers import PairedSimulation, smooth_p99
from papers.worlds.populations.services import POPULATIONS, StageDistribution, population

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
CREATED = "2026-01-01T00:00:00Z"


@pytest.fixture
def drawn(stage_of: StageOf, profile_of: ProfileOf) -> Callable[..., Profile]:
    """Requests of a synthetic DAG."""

    def draw(dag: tuple[StageDistribution, ...], requests: int, seed: int) -> Profile:
        rng = np.random.default_rng(seed)
        return profile_of(
            *(
                stage_of(distribution.name, distribution.draw(rng, requests), after=distribution.after)
                for distribution in dag
            )
        )

    return draw


def dag_of(place: int) -> tuple[StageDistribution, ...]:
    return population(POPULATIONS["C"], np.random.default_rng(1))[place]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400))
def test_smooth_p99_lies_where_it_should(latencies: list[float]) -> None:
    x = np.array(latencies)
    slack = 1e-9 * (1 + x.max())
    assert np.percentile(x, 98.5, method="lower") - slack <= smooth_p99(x) <= x.max() + slack


def test_percentiles_of_a_known_distribution() -> None:
    x = np.random.default_rng(0).permutation(np.arange(10_000.0))
    assert smooth_p99(x) == pytest.approx(9900, abs=1)


def test_what_changes_is_redone_and_nothing_else(drawn: Callable[..., Profile]) -> None:
    profile = drawn(dag_of(22), 1500, 0)
    curves = stage_curves(profile)
    paired = PairedSimulation(profile, curves, np.arange(1500))
    assert np.allclose(paired.set_choices({}), profile.latency_ms)
    for name in list(curves)[::3]:
        some = paired.with_choices({name: (0.2, 1.0)})
        other = PairedSimulation(profile, curves, np.arange(1500)).set_choices({name: (0.2, 1.0)})
        assert np.array_equal(some, other)
        assert (some <= profile.latency_ms + 1e-9).all()


def test_a_part_of_a_profile_stays_joint(drawn: Callable[..., Profile]) -> None:
    profile = drawn(dag_of(12), 500, 1)
    part = part_of(profile, np.arange(100, 200))
    assert part.requests == 100
    assert np.array_equal(part.latency_ms, profile.latency_ms[100:200])
    assert all(len(stage.calls_ms) == len(stage.censored) == 100 for stage in part.stages)


def test_no_requests_make_no_arena(drawn: Callable[..., Profile]) -> None:
    profile = drawn(dag_of(3), 100, 1)
    with pytest.raises(InputError):
        PairedSimulation(profile, stage_curves(profile), np.arange(0))
