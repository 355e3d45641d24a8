"""Reproduction of LSH: the invariant of placing, the simulated data centre, and that every result has a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from papers.lsh.accuracy import DesiredIntervals
from papers.lsh.data_centre import (
    RULES,
    DataCentre,
    performance,
    run_applications,
    tightest_fit,
)
from papers.lsh.population import Applications, applications
from papers.sources import reproduction

REQUIRED = (
    "Table 1",
    *(f"Figure {name}" for name in ("1", "2a", "2b", "2c", "2d", "2e", "2f", "3a", "3d", "4a", "4b")),
)


class Anything(dict[str, Any]):
    """Figures of a run that was not made: every figure is 1."""

    def __missing__(self, key: str) -> float:
        return 1.0


def centre(residents: np.ndarray) -> DataCentre:
    made = DataCentre.empty("default", residents.shape[1])
    made.renew(49, residents)
    return made


def test_the_published_server_has_its_point() -> None:
    made = centre(np.array([[[0.3, 0.2]], [[0.1, 0.4]]]))
    met, borne = made.points()
    assert (met[49, 0], borne[49, 0]) == pytest.approx((0.4, 0.3))
    assert (met[0, 0], borne[0, 0]) == (1.0, 1.0)
    room = np.ones(50, dtype=bool)
    for need, cause, fits in ((0.4, 0.3, True), (0.4 + 1e-6, 0.3, False), (0.4, 0.3 + 1e-6, False)):
        scores = np.full((50, 1, 2), [need, cause])
        assert tightest_fit(made, scores, room)[0][49] == fits
    made.renew(49, np.array([[[0.3, 0.2]], [[0.1, 0.4]], [[0.4, 0.3]]]))
    met, borne = made.points()
    assert (met[49, 0], borne[49, 0]) == pytest.approx((0.1, 0.0))


@given(st.integers(0, 2**32 - 1), st.integers(0, 4))
def test_the_two_bounds_are_the_invariant_for_all_residents_and_the_newcomer(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 0.5, (count + 1, 3, 2))
    here = scores[:count]
    pressure = here[:, :, 1].sum(axis=0) - here[:, :, 1]
    if count and ((here[:, :, 0] + pressure) > 1).any():
        return  # residents that do not bear one another already
    everyone = scores[:, :, 1].sum(axis=0) - scores[:, :, 1]
    bears = bool(((scores[:, :, 0] + everyone) <= 1 + 1e-12).all())
    fits, _ = tightest_fit(centre(here), np.tile(scores[count], (50, 1, 1)), np.ones(50, dtype=bool))
    assert fits[49] == bears


def test_with_exact_needs_nobody_loses_more_than_the_target_allows() -> None:
    truth = applications(5)
    alone = Applications(truth.scores, np.ones_like(truth.speed), truth.cores)
    chosen = np.random.default_rng(0).integers(len(truth.scores), size=120)
    kept = run_applications(alone, truth.scores, chosen, "tightest fit", kind="default", load="high", seed=1)
    assert kept.qos.min() >= 0.95 - 1e-9
    turned = truth.scores.copy()
    turned[..., 0] = 1 - turned[..., 0]
    broken = run_applications(alone, turned, chosen, "tightest fit", kind="default", load="high", seed=1)
    assert broken.qos.min() < 0.95


@pytest.mark.parametrize("rule", RULES)
def test_every_application_runs_and_no_core_is_taken_twice(rule: str) -> None:
    truth = applications(6)
    chosen = np.random.default_rng(1).integers(len(truth.scores), size=150)
    found = run_applications(truth, truth.scores, chosen, rule, kind="low-end", load="high", seed=2)
    assert np.isfinite(found.waited_s).all()
    assert (found.waited_s >= 0).all()
    assert 0 < found.used <= 1
    assert ((found.qos > 0) & (found.qos <= 1 + 1e-9)).all()


def test_performance_is_95_percent_at_the_limit_and_falls_beyond() -> None:
    at_limit = np.array([[[0.6, 0.1]], [[0.2, 0.4]]])
    assert performance(at_limit)[0] == pytest.approx(0.95)
    beyond = np.array([[[0.8, 0.1]], [[0.2, 0.4]]])
    assert performance(beyond)[0] == pytest.approx(0.95 - 0.5 * 0.2)
    assert performance(at_limit[:1]) == pytest.approx([1.0])


def test_intervals_hold_their_ends_and_nothing_beyond() -> None:
    intervals = DesiredIntervals(np.full((1, 2), 0.2), np.full((1, 2), 0.1), np.zeros(1))
    truth = np.array([[0.5, 0.5]])
    for factor, held in ((0.8, True), (1.1, True), (1.101, False), (0.799, False)):
        assert intervals.holds(truth * factor, truth).all() == held
    assert intervals.holds(np.array([[0.02, 0.0]]), np.array([[0.0, 0.0]])).all()


def test_every_result_has_a_row_or_a_reason() -> None:
    parts = {part.name: part for part in reproduction("lsh", seeds=1).parts}
    figures: dict[str, Any] = {name: Anything() for name in ("1", "2a", "2b", "2c", "2d", "2e")}
    accuracy = parts["accuracy"].conclude([figures])

    class Runs(dict[str, Any]):
        def __missing__(self, key: str) -> Anything:
            return Anything()

    placed = parts["placement"].conclude([Runs()])
    (example, arguments), *_ = parts["example"].jobs
    examples = parts["example"].conclude([example(*arguments)]).rows
    shown = {row.figure for row in (*examples, *accuracy.rows, *placed.rows)}
    assert set(REQUIRED) <= shown
    missing = parts["not reproduced"].conclude([]).missing
    assert {"Figure 5", "Table 4"} <= {row.figure for row in missing}
    assert all(row.reason for row in missing)
    assert [row.ours for row in examples] == [0.65, 0.55, 0.2, 0.25]
    orders = [row for row in (*accuracy.rows, *placed.rows) if " before " in row.metric]
    assert orders
    assert all(row.verdict == "failed" for row in orders if row.kind == "order")  # a tie is no order
