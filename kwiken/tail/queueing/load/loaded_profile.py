"""Profile at another load, with the work of copies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from kwiken.model.latency import end_to_end
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.queueing.load.stage_model import LoadModel, StageModel


def profile_under_load(
    model: LoadModel, load: float, added: Mapping[str, float], refused: Collection[str], seed: int
) -> Profile:
    """The profile as it would be at another load, with the work of copies included.

    Args:
        load: load as a factor of the profile's; above 0.
        added: work of copies by stage, as a share of the work of calls.
        refused: stages that may have no copies.
        seed: seed of all draws.
    """
    profile = model.profile
    stages = tuple(
        _stage_under_load(
            stage, model.stages[stage.name], load, added[stage.name], refused=stage.name in refused, seed=seed
        )
        for stage in profile.stages
    )
    first = float(profile.started_s.min()) if profile.requests else 0.0
    return replace(
        profile,
        stages=stages,
        latency_ms=end_to_end(stages, {stage.name: stage.latency_ms for stage in stages}),
        started_s=first + (profile.started_s - first) / load,
    )


def _stage_under_load(
    stage: StageProfile, model: StageModel, load: float, added: float, *, refused: bool, seed: int
) -> StageProfile:
    """One stage at another load; copies add to its calls up to 99% utilisation."""
    most = model.factor_at(0.99)
    factor = min(load * (1.0 + added), max(load, most))
    calls = model.calls_at(factor, seed=seed)
    pairs = stage.pairs_ms
    return replace(
        stage,
        calls_ms=calls if model.lag_ms is None else calls + model.lag_ms,
        censored=np.zeros(calls.shape, np.bool_),
        pairs_ms=None if pairs is None else model.latencies_at(pairs, factor, seed=seed),
        reissuable=stage.reissuable and not refused,
        lag_ms=model.lag_ms,
    )
