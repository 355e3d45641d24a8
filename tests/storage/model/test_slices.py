"""Cuts of a trace: slices that take turns, their length, and the two halves in time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.storage.model.slices import cuts, slice_ios
from kwiken.storage.trace.block_trace import BlockTrace, trace_of
from tests.support.data.storage.traces import log_and_hot_zone, zipf_trace


def of_streams(ios: int, streams: int) -> BlockTrace:
    """I/Os that go to equally busy volumes in turn; each I/O starts at a byte of its own."""
    return trace_of(
        np.arange(ios) / 1000.0,
        np.arange(ios) % streams,
        np.arange(ios) * 8192,
        np.full(ios, 4096),
        np.ones(ios, dtype=bool),
        where="turns",
    )


@pytest.mark.parametrize(("ios", "streams", "wanted"), [(6000, 1, 20), (6000, 4, 80), (600, 4, 30)])
def test_a_slice_holds_twenty_ios_of_each_stream_and_a_trace_twenty_slices(
    ios: int, streams: int, wanted: int
) -> None:
    assert slice_ios(of_streams(ios, streams)) == wanted


def test_a_rare_stream_hardly_counts() -> None:
    assert slice_ios(zipf_trace(2000)) == 20
    assert 20 < slice_ios(log_and_hot_zone(4000)) < 60


@settings(max_examples=20, deadline=None)
@given(st.integers(200, 900), st.integers(1, 5))
def test_parts_share_no_io_and_leave_none_out(ios: int, streams: int) -> None:
    trace = of_streams(ios, streams)
    for _, trained, held in cuts(trace):
        together = np.concatenate((trained.start, held.start))
        assert np.array_equal(np.sort(together), trace.start)
        assert (np.diff(trained.t_s) >= 0).all()


def test_phases_begin_half_a_slice_apart_and_exchange_the_parts() -> None:
    trace = of_streams(4000, 1)
    first, second, third, fourth, later = list(cuts(trace))
    assert np.array_equal(first[1].start, third[2].start)
    assert np.array_equal(second[1].start, fourth[2].start)
    assert first[1].start[[0, 19, 20]].tolist() == [0, 19 * 8192, 40 * 8192]
    assert second[1].start[[0, 9, 10]].tolist() == [0, 9 * 8192, 30 * 8192]
    assert later[1].end.max() <= later[2].start.min()


def test_the_time_of_other_slices_is_left_out() -> None:
    _, trained, _ = next(iter(cuts(of_streams(4000, 1))))
    assert trained.duration_s == pytest.approx((len(trained) - 1) * 1e-3)


def test_too_few_are_not_cut() -> None:
    with pytest.raises(InputError, match="200 are needed"):
        next(cuts(of_streams(199, 1)))
