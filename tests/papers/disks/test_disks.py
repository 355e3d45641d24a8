"""Simulated disks and drawn applications."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.storage.trace.block_trace import trace_of
from papers.worlds.disks.applications import APPLICATIONS, drawn_trace, fragmented_trace
from papers.worlds.disks.devices import DiskModel, cached_share, served


@pytest.mark.parametrize(("gap_ms", "wanted"), [(10.0, 100.0), (1.0, 1000.0 / (6.0 + 8192 / 1e5))])
def test_a_disk_serves_no_more_than_it_can(gap_ms: float, wanted: float) -> None:
    trace = trace_of(
        np.arange(4000, dtype=np.float64) * (gap_ms * 1e-3),
        np.zeros(4000, dtype=np.int64),
        np.random.default_rng(0).integers(0, 1 << 20, 4000) * 16384,
        np.full(4000, 8192),
        np.ones(4000, dtype=bool),
        where="steady",
    )
    assert served(trace, DiskModel())[1] == pytest.approx(wanted, rel=0.02)


def test_a_cache_serves_more_of_what_is_gathered() -> None:
    even = cached_share(np.ones(1), np.array([1000.0]), 100.0)
    hot = cached_share(np.array([0.9, 0.1]), np.array([50.0, 950.0]), 100.0)
    assert even == pytest.approx(0.1, abs=0.01)
    assert hot > 0.8
    assert cached_share(np.ones(1), np.array([1000.0]), 1000.0) == 1.0
    assert cached_share(np.ones(1), np.array([1000.0]), 0.0) == 0.0


@pytest.mark.parametrize("number", range(len(APPLICATIONS)))
def test_applications_have_their_published_shares(number: int) -> None:
    app = APPLICATIONS[number]
    trace = drawn_trace(app, 20_000, np.random.default_rng(1))
    assert trace.read.mean() == pytest.approx(app.read, abs=0.02)
    assert trace.sequential.mean() == pytest.approx(app.sequential, abs=0.02)
    before, after = fragmented_trace(app, 20_000, np.random.default_rng(1))
    assert before.sequential.mean() == pytest.approx(app.sequential, abs=0.02)
    assert after.sequential.mean() == pytest.approx(app.contiguous, abs=0.02)
    assert sorted(before.size.tolist()) == sorted(after.size.tolist())
