"""Reproduced results of iBench: anchors of coverage, errors of knees, and orderings of the scenario."""

from __future__ import annotations

import numpy as np
import pytest

from papers.figures.rows import run
from papers.ibench import parts, scenario
from papers.sources import reproduction

LINES = 131_072


@pytest.mark.parametrize(("level", "draws"), [(0.08, 10_929), (0.5, 90_852), (0.9, 301_804), (0.99, 603_609)])
def test_draws_with_replacement_have_the_specified_counts(level: float, draws: int) -> None:
    assert parts.draws_needed(LINES, level) == pytest.approx(draws, abs=1)
    covered = parts.covered_by_draws(LINES, draws, np.random.default_rng(0))
    assert covered / LINES == pytest.approx(level, rel=0.01)


@pytest.mark.parametrize("lines", [1, 512, 768, 131_072, 99_991])
@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_a_permutation_meets_no_line_twice(lines: int, level: float) -> None:
    accesses = int(lines * level)
    assert parts.covered_by_permutation(lines, accesses) == accesses


def test_every_row_is_there_at_one_seed() -> None:
    found = {row.metric: row.ours for row in run(reproduction("ibench", seeds=1)).rows}
    assert found["pressure from a line, permutation, % of the cache"] < 0.01
    assert found["mean error of a tolerated score, points of 100"] < 10
    assert found["mean error of a caused score, points of 100"] < 10


def test_contention_beats_least_loaded_on_every_seed() -> None:
    for seed in range(8):
        means = {name: scenario.performance(seed, name).mean() for name in scenario.CHOICES}
        assert means["least violation"] > means["least loaded"]


def test_no_machine_has_more_applications_than_cores() -> None:
    for choice in scenario.CHOICES:
        found = scenario.performance(3, choice)
        assert found.shape == (200,)
        assert ((found > 0) & (found <= 1)).all()
