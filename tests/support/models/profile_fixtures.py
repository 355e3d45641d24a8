"""Profiles made by hand, for all tests of the brain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from kwiken.base.arrays import Bools, Floats
from kwiken.model.latency import end_to_end
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def _stage_of(
    name: str,
    calls_ms: Floats | Sequence[float],
    *,
    after: tuple[str, ...] = (),
    censored: Bools | None = None,
    busy_ms: float | None = None,
    reissuable: bool = True,
) -> StageProfile:
    calls = np.asarray(calls_ms, dtype=float)
    calls = calls[:, None] if calls.ndim == 1 else calls
    cut = np.zeros(calls.shape, dtype=np.bool_) if censored is None else censored.reshape(calls.shape)
    return StageProfile(
        name=name,
        after=after,
        match=SpanMatch(service="test", operation=name),
        calls_ms=calls,
        censored=cut,
        busy_ms=busy_ms,
        reissuable=reissuable,
    )


def _profile_of(
    *stages: StageProfile, service: str = "test", counts: Mapping[str, int] | None = None
) -> Profile:
    latency = end_to_end(stages, {stage.name: stage.latency_ms for stage in stages})
    return Profile(
        service=service,
        stages=stages,
        latency_ms=latency,
        started_s=np.linspace(1.7e9, 1.7e9 + len(latency) / 100, len(latency)),
        counts=counts or {},
    )


@pytest.fixture
def stage_of() -> StageOf:
    """A stage's profile from its calls."""
    return _stage_of


@pytest.fixture
def profile_of() -> ProfileOf:
    """A profile from stages, whose requests last exactly as long as the DAG says."""
    return _profile_of
