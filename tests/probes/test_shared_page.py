"""Page of shared memory between the prober and a stage: latencies by bucket."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from kwiken.probes.run_stage import CELLS, CONTROL_BYTES, DONE, SharedPage, quantile_s


@given(st.lists(st.floats(1e-5, 500.0), min_size=1, max_size=300))
def test_a_percentile_of_counted_latencies_is_within_a_bucket(latencies_s: list[float]) -> None:
    memory = os.memfd_create("test")
    os.ftruncate(memory, CONTROL_BYTES)
    page = SharedPage(memory)
    os.close(memory)
    for latency_s in latencies_s:
        page.count(latency_s)
    assert page.read(DONE) == 0, "the buckets stand beside the fields"
    counts = page.latencies()
    page.close()
    assert (len(counts), sum(counts)) == (CELLS, len(latencies_s))
    exact = sorted(latencies_s)[-(-len(latencies_s) * 99 // 100) - 1]
    assert exact * (1 - 1e-9) <= quantile_s(counts, 0.99) <= exact * 1.03


def test_no_calls_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no calls"):
        quantile_s([0] * CELLS, 0.99)
