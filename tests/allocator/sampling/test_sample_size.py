"""Sizes of samples: anchors of the sources, bounds, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.sampling.sample_size import (
    Guarantee,
    draws_for,
    failure_of,
    guarantee_from_text,
)
from kwiken.base.errors import InputError
from papers.tarcil.states import draws_when_busy


@pytest.mark.parametrize(
    ("quality", "failure", "draws"),
    [(0.8, 1e-3, 31), (0.9, 1e-3, 66), (0.92, 1e-3, 83), (0.95, 1e-3, 135), (0.8, 1e-2, 21), (0.9, 1e-2, 44)],
)
def test_sizes_of_the_source(quality: float, failure: float, draws: int) -> None:
    assert Guarantee(quality, failure).draws == draws_for(quality, failure) == draws


def test_failures_of_the_source() -> None:
    assert failure_of(0.8, 64) == pytest.approx(6.28e-7, rel=1e-3)
    assert failure_of(0.9, 64) == pytest.approx(1.2e-3, rel=0.02)
    assert failure_of(0.9, 128) == pytest.approx(1.4e-6, rel=0.02)


def test_a_busy_cluster_needs_more_draws() -> None:
    assert draws_when_busy(Guarantee(0.8, 1e-3), 100, 8) == 83
    assert 1 - failure_of(0.92, 32) == pytest.approx(0.931, abs=5e-4)
    assert 1 - failure_of(0.92, 82) >= 0.998


@given(st.floats(0.05, 0.99), st.floats(1e-6, 0.5))
def test_the_least_size_keeps_the_promise(quality: float, failure: float) -> None:
    draws = draws_for(quality, failure)
    assert failure_of(quality, draws) <= failure * (1 + 1e-6)
    assert draws == 1 or failure_of(quality, draws - 1) > failure * (1 - 1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "0:0.001",
        "1:0.001",
        "0.9:0",
        "0.9:1",
        "nan:0.1",
        "0.9",
        "0.9:0.1:0.2",
        "a:b",
        "0.999999:1e-300",
        "",
        "-1:2",
    ],
)
def test_what_is_no_guarantee_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="guarantee"):
        guarantee_from_text(text)
