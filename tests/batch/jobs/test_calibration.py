"""Widths of intervals by split conformal prediction: exact ranks, and runs held out in turn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.jobs.replay.calibration import (
    MAX_WIDTH,
    MIN_HELD_OUT,
    MIN_WIDTH,
    conformal_width,
    interval_width,
    width_needed,
)
from kwiken.batch.jobs.replay.predictor import Predictor
from papers.worlds.queries.event_lines import event_log
from papers.worlds.queries.world import draw_query, run_query


def ran(executors: int, seed: int) -> BatchJob:
    query = draw_query(f"query {seed}", np.random.default_rng(seed))
    run = run_query(query, executors, 1, np.random.default_rng([seed, executors]))
    found = read_log(event_log(run, f"app-{seed}-{executors}"), name="n", where="w")
    assert found is not None
    return found.jobs[0]


def test_the_rank_is_that_of_split_conformal_prediction() -> None:
    assert conformal_width([0.1] * 8) is None  # ceil(0.9 x 9) is 9 of 8
    assert conformal_width(np.arange(9).tolist()) == 8
    assert conformal_width(np.arange(99).tolist()) == 89  # the 90th of 99
    assert conformal_width([]) is None


@given(st.lists(st.floats(0, 10), min_size=MIN_HELD_OUT, max_size=60))
def test_the_width_holds_nine_of_ten_of_those_held_out(needed: list[float]) -> None:
    width = conformal_width(needed)
    assert width is not None
    assert sum(each <= width for each in needed) >= 0.9 * len(needed)


def test_the_width_that_a_run_needs_is_that_of_its_side() -> None:
    found = Predictor([ran(4, 1)]).at(8)
    assert width_needed(found, found.total_ms) == 0
    assert width_needed(found, found.high_ms) == pytest.approx(1)
    assert width_needed(found, found.low_ms) == pytest.approx(1)
    assert width_needed(found, 2 * found.high_ms - found.total_ms) == pytest.approx(2)


def test_few_runs_set_no_width_and_many_do() -> None:
    assert interval_width([]) is None
    assert interval_width([[ran(4, 1), ran(8, 1)]]) is None
    found = interval_width([[ran(4, seed), ran(8, seed)] for seed in range(6)])
    assert found is not None
    assert found.held_out == 12
    assert MIN_WIDTH <= found.factor <= MAX_WIDTH


def test_a_factor_scales_both_sides_of_the_interval() -> None:
    runs = [ran(4, 2)]
    one, two = Predictor(runs).at(8), Predictor(runs, width=2).at(8)
    assert two.total_ms == one.total_ms
    assert two.high_ms - two.total_ms == pytest.approx(2 * (one.high_ms - one.total_ms))
    assert two.total_ms - two.low_ms == pytest.approx(2 * (one.total_ms - one.low_ms))
    assert math.isfinite(Predictor(runs, width=100).at(8).low_ms)
    assert Predictor(runs, width=100).at(8).low_ms >= 0


def test_intervals_hold_runs_far_from_the_known_size() -> None:
    """Queries of a seed by which no width was set, from runs on 10 executors, on 60 and 100."""
    held = []
    for seed in range(5_700, 5_712):
        predictor = Predictor([ran(10, seed)])
        for executors in (60, 100):
            found = predictor.at(executors)
            held.append(found.low_ms <= ran(executors, seed).took_ms <= found.high_ms)
    assert sum(held) >= 0.8 * len(held)
    near, far = (Predictor([ran(10, 5_700)]).at(n) for n in (40, 41))
    assert (far.high_ms - far.low_ms) / far.total_ms > (near.high_ms - near.low_ms) / near.total_ms
