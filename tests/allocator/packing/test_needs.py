"""Sensitivity on monotone curves, carried to other machine types, and clusters of use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from papers.colocation.architectures import architecture
from papers.colocation.limits import tolerated_injection
from papers.colocation.sensitivity import (
    carried,
    least_share,
    monotone,
    on_class,
    sensitivity_curve,
)
from papers.colocation.usage_clusters import cluster_usage, elbow

SMALL, LARGE = architecture("Haswell10"), architecture("Broadwell20")


def test_scores_are_carried_by_equation_1_and_back() -> None:
    scores = np.array([1.13, 0.79, 0.80])
    found = carried(scores, SMALL, LARGE)
    assert found == pytest.approx(scores * [0.8232, 0.57648, 0.46667], abs=1e-4)
    assert found[0] == pytest.approx(0.930, abs=1e-3)
    assert carried(found, LARGE, SMALL) == pytest.approx(scores, abs=1e-12)


def test_a_crossing_at_93_percent_is_the_score() -> None:
    shares = np.array([0.86, 0.93, 1.0])
    assert least_share(shares, np.array([0.12, 0.05, 0.0])) == pytest.approx(0.93)


def test_the_published_points_of_a_bandwidth() -> None:
    injected, impacts = np.array([0.0, 0.065, 0.21]), np.array([0.0, 0.0, 0.07])
    assert tolerated_injection(injected, impacts, 0.07) == pytest.approx(0.79)
    assert 0.79 < tolerated_injection(injected, impacts) <= 0.935


@given(st.lists(st.floats(0, 10), min_size=2, max_size=30))
def test_a_score_is_a_share_and_the_curve_never_rises(impacts: list[float]) -> None:
    shares = np.linspace(0.1, 1.0, len(impacts))
    fitted = monotone(np.array(impacts))
    assert np.all(np.diff(fitted) <= 1e-9)
    assert fitted.mean() == pytest.approx(np.mean(impacts), abs=1e-9)
    assert 0.1 <= least_share(shares, np.array(impacts)) <= 1.0


def test_more_tolerance_needs_no_larger_share() -> None:
    rng = np.random.default_rng(0)
    shares = np.linspace(0.2, 1, 17)
    impacts = np.maximum(0, 1 / (shares - 0.15) - 1.2) + rng.normal(0, 0.02, 17)
    found = [least_share(shares, impacts, tolerance) for tolerance in (0.02, 0.05, 0.1, 0.5, 2.0)]
    assert found == sorted(found, reverse=True)


def test_a_stage_at_half_load_needs_what_its_p99_rises_from() -> None:
    shares = np.array([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    p99_ms = 10.0 / (shares - 0.3) * 0.7
    curve = sensitivity_curve(shares, p99_ms)
    assert curve.impacts[-1] == 0
    assert np.all(np.diff(curve.impacts) <= 0)
    assert 0.9 < curve.score < 1.0
    assert on_class(curve.score, 2.0) == pytest.approx(curve.score / 2)
    assert on_class(curve.score, 0.5) > 1, "a class of half the speed cannot host it"


@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=20), st.floats(0.05, 4.0))
def test_a_faster_class_needs_no_larger_share(p99_ms: list[float], speed: float) -> None:
    curve = sensitivity_curve(np.linspace(0.2, 1.0, len(p99_ms)), np.array(p99_ms))
    assert 0.2 <= curve.score <= 1.0
    assert on_class(curve.score, 2 * speed) <= on_class(curve.score, speed)


def test_shares_that_do_not_rise_are_refused() -> None:
    with pytest.raises(InputError, match="shares must rise"):
        least_share(np.array([0.5, 0.5]), np.zeros(2))


def test_three_blobs_are_found_in_order_and_kept_near_the_border() -> None:
    rng = np.random.default_rng(0)
    blobs = np.concatenate([rng.normal(at, 0.02, (60, 3)) for at in (0.8, 0.2, 0.5)])
    found = cluster_usage(blobs, 3, np.random.default_rng(1))
    assert found.labels.tolist() == [2] * 60 + [0] * 60 + [1] * 60
    assert elbow(blobs, 8, np.random.default_rng(1)) == 3
    border = np.vstack([blobs, np.full((1, 3), 0.652)])
    before = np.append(found.labels, 1)
    assert cluster_usage(border, 3, np.random.default_rng(1), before).labels[-1] == 1
