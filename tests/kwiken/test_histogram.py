"""Histograms: relative error, merging, laws of sums and maxima, JSON."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwiken import Histogram, InputError, add_array, convolve, end_to_end, law_of_requests, slowest_of
from kwiken._histogram import BUCKETS, ERROR, HIGHEST_MS, VALUES
from kwiken._profile import Floats

LATENCIES = st.lists(st.floats(0.0011, 3_500_000), min_size=1, max_size=60)


def of_array(values: Floats | list[float]) -> Histogram:
    histogram = Histogram()
    add_array(histogram, np.asarray(values, dtype=float))
    return histogram


@dataclass(frozen=True)
class Node:
    name: str
    after: tuple[str, ...] = ()


@given(LATENCIES, st.floats(0, 1))
def test_quantiles_are_within_the_stated_error(latencies: list[float], share: float) -> None:
    exact = float(np.quantile(latencies, share, method="inverted_cdf"))
    assert Histogram(latencies).quantile(share) == pytest.approx(exact, rel=ERROR * (1 + 1e-9))


@given(LATENCIES)
def test_an_array_counts_as_its_values_one_by_one(latencies: list[float]) -> None:
    one, many = Histogram(latencies), of_array(latencies)
    assert many.total == one.total
    # A value on a bucket's very edge may round to either side of it.
    for share in (0.0, 0.5, 1.0):
        assert many.quantile(share) == pytest.approx(one.quantile(share), rel=2.1 * ERROR)


@given(LATENCIES, LATENCIES)
def test_merging_is_counting_both(first: list[float], second: list[float]) -> None:
    merged = Histogram(first)
    merged.merge(Histogram(second))
    assert merged == Histogram(first + second)


@given(LATENCIES)
def test_mean_and_variance_are_within_the_error(latencies: list[float]) -> None:
    histogram = Histogram(latencies)
    assert histogram.mean == pytest.approx(np.mean(latencies), rel=ERROR * (1 + 1e-9))
    slack = 2.1 * ERROR * np.mean(np.square(latencies)) + 1e-9
    assert histogram.variance == pytest.approx(np.var(latencies), abs=2 * float(slack))


def test_values_of_the_buckets_ascend_from_zero_to_an_hour() -> None:
    assert VALUES[0] == 0
    assert VALUES[-1] == HIGHEST_MS
    assert len(VALUES) == BUCKETS
    assert all(a < b for a, b in itertools.pairwise(VALUES[:-1]))


def test_latencies_off_the_grid_count_at_its_ends() -> None:
    histogram = of_array([0.0, 0.0005, 0.001, 5.0, HIGHEST_MS, 1e9, math.inf, math.nan])
    assert (histogram.below, histogram.above, histogram.total) == (3, 3, 7)
    assert histogram.quantile(0.0) == 0
    assert histogram.quantile(1.0) == HIGHEST_MS
    assert Histogram([0.0, 1e9, math.inf]).total == 3


def test_quantiles_may_be_asked_in_any_order() -> None:
    histogram = of_array(np.arange(1.0, 101.0))
    up, down = histogram.quantiles([0.1, 0.5, 0.9]), histogram.quantiles([0.9, 0.5, 0.1])
    assert up == down[::-1]
    assert up == pytest.approx([10, 50, 90], rel=ERROR)


@pytest.mark.parametrize("bad", [-1.0, -math.inf, math.nan])
def test_refuses_what_is_no_latency(bad: float) -> None:
    with pytest.raises(InputError):
        Histogram().add(bad)


def test_arrays_are_checked_too() -> None:
    with pytest.raises(InputError):
        of_array([1.0, -1.0])


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_refuses_what_is_no_share(share: float) -> None:
    with pytest.raises(InputError):
        Histogram([1.0]).quantile(share)


def test_an_empty_histogram_has_no_quantiles() -> None:
    empty = Histogram()
    assert (empty.total, empty.mean, empty.variance) == (0, 0, 0)
    for broken in (
        lambda: empty.quantile(0.5),
        lambda: convolve(empty, empty),
        lambda: slowest_of(empty),
        slowest_of,
    ):
        with pytest.raises(InputError):
            broken()


def test_json_round_trip() -> None:
    histogram = of_array(np.random.default_rng(0).lognormal(0, 2, 1000))
    assert Histogram.from_dict(json.loads(json.dumps(histogram.to_dict()))) == histogram
    law = convolve(histogram, histogram)
    assert Histogram.from_dict(json.loads(json.dumps(law.to_dict()))) == law


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"version": 2, "error": 0.01, "counts": {}},
        {"version": 1, "error": 0.02, "counts": {}},
        {"version": 1, "error": 0.01, "counts": []},
        {"version": 1, "error": 0.01, "counts": {}, "more": 1},
        {"version": 1, "error": 0.01, "counts": {"-1": 1}},
        {"version": 1, "error": 0.01, "counts": {"99999": 1}},
        {"version": 1, "error": 0.01, "counts": {"9" * 5000: 1}},
        {"version": 1, "error": 0.01, "counts": {"x": 1}},
        {"version": 1, "error": 0.01, "counts": {"1": -1}},
        {"version": 1, "error": 0.01, "counts": {"1": True}},
        {"version": 1, "error": 0.01, "counts": {"1": math.nan}},
        {"version": 1, "error": 0.01, "counts": {"1": 10**30}},
    ],
)
def test_refuses_json_that_is_no_histogram(data: Any) -> None:
    with pytest.raises(InputError):
        Histogram.from_dict(data)


def test_the_runtime_pays_for_no_numpy() -> None:
    code = "import sys, kwiken; kwiken.Histogram([1.0]).quantile(0.5); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@given(LATENCIES, LATENCIES)
@settings(max_examples=50)
def test_sums_keep_mass_and_mean(first: list[float], second: list[float]) -> None:
    a, b = of_array(first), of_array(second)
    total = convolve(a, b)
    assert total.total == pytest.approx(1)
    if not total.above:
        assert total.mean == pytest.approx(a.mean + b.mean, rel=1e-9)
    assert convolve(b, a).counts == pytest.approx(total.counts, abs=1e-12)


def test_sums_and_maxima_match_sampling() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.lognormal(2, 1, 200_000), rng.lognormal(1, 1.5, 200_000)
    total, slowest = convolve(of_array(x), of_array(y)), slowest_of(of_array(x), of_array(y))
    assert total.variance == pytest.approx(x.var() + y.var(), rel=0.02)
    for share in (0.1, 0.5, 0.9, 0.99):
        assert total.quantile(share) == pytest.approx(np.quantile(x + y, share), rel=0.03)
        assert slowest.quantile(share) == pytest.approx(np.quantile(np.maximum(x, y), share), rel=0.03)


def test_adding_nothing_changes_nothing() -> None:
    histogram = of_array(np.random.default_rng(2).lognormal(0, 2, 1000))
    assert convolve(histogram, Histogram([0.0])).counts == pytest.approx([c / 1000 for c in histogram.counts])


def test_sums_beyond_the_grid_stay_at_its_end() -> None:
    total = convolve(Histogram([3_000_000.0]), Histogram([3_000_000.0]))
    assert total.above == pytest.approx(1)
    assert convolve(Histogram([1e9]), Histogram([1.0])).above == pytest.approx(1)


def test_small_latencies_add_up_beside_large_ones() -> None:
    # A thousand times 1 ms beside 10 s: each alone is far below a bucket's width.
    law, little = Histogram([10_000.0]), Histogram([1.0])
    start, step = law.mean, little.mean
    for _ in range(1000):
        law = convolve(law, little)
    assert law.mean == pytest.approx(start + 1000 * step, rel=1e-9)


def test_law_of_requests_matches_the_simulated_dag() -> None:
    rng = np.random.default_rng(3)
    tree = [Node("a"), Node("b"), Node("c", ("a", "b")), Node("d", ("c",)), Node("e")]
    latency = {node.name: rng.lognormal(i / 2, 0.8, 200_000) for i, node in enumerate(tree)}
    law = law_of_requests(tree, {name: of_array(values) for name, values in latency.items()})
    simulated = end_to_end(tree, latency)
    for share in (0.5, 0.9, 0.99):
        assert law.quantile(share) == pytest.approx(np.quantile(simulated, share), rel=0.03)


def test_law_of_requests_bounds_joining_paths_from_above() -> None:
    rng = np.random.default_rng(4)
    diamond = [Node("a"), Node("b", ("a",)), Node("c", ("a",)), Node("d", ("b", "c"))]
    latency = {node.name: rng.lognormal(0, 1, 100_000) for node in diamond}
    law = law_of_requests(diamond, {name: of_array(values) for name, values in latency.items()})
    simulated = end_to_end(diamond, latency)
    for share in (0.5, 0.9, 0.99):
        assert law.quantile(share) >= np.quantile(simulated, share) * 0.98
