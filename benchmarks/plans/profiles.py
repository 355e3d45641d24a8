"""Synthetic profiles for benchmarks, in the shape of design 7, with log-normal latencies."""

from __future__ import annotations

import numpy as np

from kwiken.model.latency import end_to_end
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile

STAGES, REQUESTS = 150, 10_000


def synthetic_profile(*, stages: int = STAGES, requests: int = REQUESTS, seed: int = 0) -> Profile:
    """A profile of single calls; every stage comes after up to two of the eight before it."""
    rng = np.random.default_rng(seed)
    made: list[StageProfile] = []
    for i in range(stages):
        mean, sigma = rng.lognormal(np.log(10), 1), float(np.clip(rng.lognormal(np.log(0.45), 0.4), 0.05, 2))
        calls = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, (requests, 1))
        parents = (
            sorted({f"s{j}" for j in rng.integers(max(0, i - 8), i, size=min(i, 2)).tolist()}) if i else ()
        )
        made.append(
            StageProfile(
                name=f"s{i}",
                after=tuple(parents),
                match=SpanMatch(service="synthetic", operation=f"s{i}"),
                calls_ms=calls,
                censored=np.zeros(calls.shape, dtype=np.bool_),
            )
        )
    latency = end_to_end(made, {stage.name: stage.latency_ms for stage in made})
    return Profile(
        service="synthetic",
        stages=tuple(made),
        latency_ms=latency,
        started_s=np.linspace(0, requests / 100, requests),
    )
