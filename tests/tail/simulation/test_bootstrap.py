"""Block bootstrap of means and percentiles."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.tail.simulation.expectation import BlockBootstrap, interval


def test_what_does_not_vary_has_no_interval() -> None:
    bootstrap = BlockBootstrap(1000, seed=1)
    assert interval(bootstrap.means(np.full(1000, 3.0))) == (3.0, 3.0)
    assert (bootstrap.percentiles(np.full(1000, 7.0)) == 7.0).all()


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    values = np.random.default_rng(4).normal(10, 2, 20_000)
    low, high = interval(BlockBootstrap(len(values), seed=1).means(values))
    assert high - low == pytest.approx(2 * 1.645 * 2 / np.sqrt(20_000), rel=0.3)
    assert low < values.mean() < high


def test_bursts_widen_an_interval() -> None:
    rng = np.random.default_rng(5)
    spread = np.where(rng.random(10_000) < 0.02, 100.0, 0.0)
    bursts = np.asarray(np.sort(spread)[::-1], dtype=np.float64)
    widths = []
    bootstrap = BlockBootstrap(10_000, seed=2)
    for resampled in (bootstrap.means(spread), bootstrap.means(bursts)):
        low, high = interval(resampled)
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]


def test_percentiles_of_a_resample_are_values_that_were_seen() -> None:
    values = np.arange(500.0)
    found = BlockBootstrap(500, seed=3).percentiles(values)
    assert found.shape == (200, 5)
    assert np.isin(found, values).all()
    assert (np.diff(found, axis=1) >= 0).all()
