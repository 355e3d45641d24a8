"""Range of the p99 of a run: what later runs of other worlds show lies in it, and it is no wider than that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kwiken.base.arrays import Floats
from kwiken.model.latency import ladder
from kwiken.model.plan.plan import Budgets, Correction, Expected, Intervals, Ladder
from kwiken.tail.simulation.expectation import BlockBootstrap, interval
from kwiken.tail.simulation.run_range import run_range

RECORDED, RUN, WORLDS = 1500, 600, 40


def steady(rng: np.random.Generator, requests: int) -> Floats:
    return rng.lognormal(3.0, 0.3, requests) + 150.0 * rng.random(requests) * (rng.random(requests) < 0.03)


def in_bursts(rng: np.random.Generator, requests: int) -> Floats:
    """Stalls that last for some requests each: half of the requests within one wait."""
    stalled = np.zeros(requests, np.bool_)
    for start in np.flatnonzero(rng.random(requests) < 0.006):
        stalled[start : start + int(rng.geometric(0.1))] = True
    waits = stalled & (rng.random(requests) < 0.5)
    return rng.lognormal(3.0, 0.3, requests) + rng.uniform(50, 200, requests) * waits


def drifting(rng: np.random.Generator, requests: int) -> Floats:
    """The machine is slower or faster by a fifth from one two hundred requests to the next."""
    speed = np.exp(rng.normal(0, 0.2, -(-requests // 200))).repeat(200)[:requests]
    return steady(rng, requests) * speed


def expected_of(latency_ms: Floats) -> Expected:
    column = BlockBootstrap(len(latency_ms), seed=1).percentiles(latency_ms)[:, 3]
    told = ladder(latency_ms)
    bounds = Intervals(after={"p99_ms": interval(column)})
    return Expected(before=told, after=told, spent=Budgets(), bounds=bounds)


@pytest.mark.slow
@pytest.mark.parametrize("world", [steady, in_bursts, drifting])
def test_later_runs_lie_in_the_range(world: Callable[[np.random.Generator, int], Floats]) -> None:
    held, ratios, errors = 0, [], []
    for seed in range(WORLDS):
        latency_ms = world(np.random.default_rng([7, seed]), RECORDED + RUN)
        recorded, later = latency_ms[:RECORDED], latency_ms[RECORDED:]
        ends = run_range(recorded, expected_of(recorded), RUN, recorded=RECORDED, seed=seed)
        assert ends is not None
        came_ms = float(np.percentile(later, 99))
        held += ends[0] <= came_ms <= ends[1]
        ratios.append(ends[1] / ends[0])
        errors.append(came_ms / np.percentile(recorded, 99))
    assert held >= 0.85 * WORLDS
    low, high = np.quantile(errors, (0.05, 0.95))
    assert np.median(ratios) < (high / low) ** 1.6, "hardly wider than what came was spread"


def test_longer_runs_have_narrower_ranges_and_never_narrower_than_the_bounds() -> None:
    latency_ms = steady(np.random.default_rng(3), RECORDED)
    expected = expected_of(latency_ms)
    ranges = [run_range(latency_ms, expected, n, recorded=RECORDED, seed=0) for n in (150, 600, 20_000)]
    widths = [ends[1] / ends[0] for ends in ranges if ends is not None]
    assert len(widths) == 3
    assert widths == sorted(widths, reverse=True)
    low, high = expected.bounds.after["p99_ms"]
    assert all(ends is not None and ends[0] <= low and ends[1] >= high for ends in ranges)


def test_without_bounds_only_a_tried_plan_gives_a_range() -> None:
    latency_ms = steady(np.random.default_rng(5), RECORDED)
    told = ladder(latency_ms)
    silent = Expected(before=told, after=told, spent=Budgets(), unshown=("a",))
    assert run_range(latency_ms, silent, RUN, recorded=RECORDED, seed=0) is None
    assert run_range(np.empty(0), silent, RUN, recorded=0, seed=0) is None
    correction = Correction(plan="p", requests=300, factors={"p99_ms": 1.2}, bounds={"p99_ms": (1.0, 1.44)})
    longer = Ladder(**{name: 1.2 * getattr(told, name) for name in Ladder.__struct_fields__})
    tried = Expected(before=told, after=longer, spent=Budgets(), unshown=("a",), correction=correction)
    ends = run_range(latency_ms, tried, RUN, recorded=RECORDED, seed=0)
    assert ends is not None
    assert ends[0] < told.p99_ms
    assert ends[1] > 1.44 * told.p99_ms
