"""A small profile with a tail, for tests that plan and simulate."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import end_to_end
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile


def small_profile(requests: int = 600, *, service: str = "search", seed: int = 1) -> Profile:
    """Three stages: a quick one, then a fan-out with rare slow calls beside a steady stage that runs once."""
    rng = np.random.default_rng(seed)

    def calls(median: float, slow: float, width: int = 1) -> Floats:
        drawn = rng.lognormal(np.log(median), 0.3, (requests, width))
        return np.asarray(np.where(rng.random(drawn.shape) < slow, drawn * 20, drawn))

    stages = (
        _stage("spell", (), calls(5, 0.02)),
        _stage("lookup", ("spell",), calls(8, 0.01, 4)),
        _stage("audit", ("spell",), calls(20, 0.0), reissuable=False),
    )
    latency = end_to_end(stages, {stage.name: stage.latency_ms for stage in stages})
    return Profile(
        service=service,
        stages=stages,
        latency_ms=latency,
        started_s=np.arange(requests) / 50,
        counts={"traces": requests},
    )


def _stage(name: str, after: tuple[str, ...], calls: Floats, *, reissuable: bool = True) -> StageProfile:
    return StageProfile(
        name=name,
        after=after,
        match=SpanMatch(service=f"search-{name}", operation=name),
        calls_ms=calls,
        censored=np.zeros(calls.shape, dtype=np.bool_),
        reissuable=reissuable,
    )
