"""Cost models: each stage's share of the work of an average request, and a plan's extra work under each.

The source charges a stage's mean latency. Where a fault makes a cheap stage slow, its mean is mostly tail,
and the stage becomes too expensive to reissue although it gains most. So busy time or the median is the
default here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Costs
from kwiken.model.profile.profile import Profile, StageProfile

MODELS = ("typical", "busy", "calls", "mean")
MIN_COST_MS = 0.001  # resolution of traces: a stage that is called never costs 0
MAX_NAMES_SHOWN = 5

CostModel = str | Mapping[str, float]


def costs(profile: Profile, model: CostModel | None = None) -> Costs:
    """Normalised costs of a profile's stages.

    Args:
        model: `typical` (median time of a visit), `busy` (measured busy time), `calls` (every call costs
            one), `mean` (mean time of a visit, as in the source), all summed over a fan-out's shards; or a
            mapping from stage names to the cost of a visit, above 0 in any unit. None for `busy` where every
            stage that may be reissued has a measured busy time, else `typical`.

    Returns:
        Shares of the cost of an average request, of sum 1: a stage that only some requests visit counts for
        that share of them. The request's own time costs 0 unless a mapping names it.

    Raises:
        InputError: for an unknown model, or one that the profile lacks the data for; names the stages.
    """
    if model is None:
        model = default_model(profile)
    raw = _named(profile, model) if isinstance(model, str) else _given(profile, model)
    label = model if isinstance(model, str) else "file"
    if all(stage.own_time for stage in profile.stages):  # there is nothing to copy, and so nothing to charge
        return Costs(model=label, stages=dict.fromkeys(raw, 0.0))
    total = math.fsum(raw.values())
    if not total > 0:
        raise InputError("no stage costs anything: the profile has no calls", where="cost")
    return Costs(model=label, stages={name: value / total for name, value in raw.items()})


def default_model(profile: Profile) -> str:
    """Default cost model: `busy` where every reissuable stage has a measured busy time, else `typical`."""
    copied = any(_may_be_copied(stage) for stage in profile.stages)
    return "busy" if copied and not _without_busy_time(profile) else "typical"


def cost_of_one_call(profile: Profile, shares: Costs, stage: str) -> float:
    """Cost of one copy of a stage's call, as a share of an average request's cost.

    Raises:
        KeyError: when the profile has no such stage.
    """
    calls = profile.stage(stage).calls_per_request
    return shares.stages.get(stage, 0.0) / calls if calls else 0.0


def spent_by_model(profile: Profile, shares: Costs, spent: Mapping[str, float]) -> dict[str, float]:
    """Extra work of a plan under every cost model that the profile has the data for.

    A budget is enforced in the plan's own cost model. The same copies may cost much more in another: the mean
    time of a stage with a fault, for example, is mostly tail.

    Args:
        shares: costs of the plan, in whose model `spent` is given.
        spent: by stage: extra work there as a share of all work, for copies, catch-up or both.

    Returns:
        By model (`calls`, `typical`, `mean`, and `busy` where busy times were measured): extra work as a
        share of all work in that model.
    """
    more = {name: value / shares.stages[name] for name, value in spent.items() if shares.stages.get(name)}
    found = {}
    for model in MODELS:
        if model != "busy" or not _without_busy_time(profile):
            known = costs(profile, model).stages
            found[model] = sum(known.get(name, 0.0) * extra for name, extra in more.items())
    return found


def _named(profile: Profile, model: str) -> dict[str, float]:
    if model not in MODELS:
        raise InputError(f"must be one of {', '.join(MODELS)} or a file, not {model!r}", where="cost")
    if model == "busy" and (lacking := _without_busy_time(profile)):
        names = ", ".join(lacking[:MAX_NAMES_SHOWN]) + (", ..." if len(lacking) > MAX_NAMES_SHOWN else "")
        raise InputError(f"busy time was not measured for: {names}; use 'typical'", where="cost")
    return {stage.name: _MODELS[model](stage) for stage in profile.stages if not stage.own_time}


def _may_be_copied(stage: StageProfile) -> bool:
    """Whether copies of a stage's calls may be sent, and there were calls at all."""
    return stage.reissuable and not stage.own_time and bool(stage.visited.any())


def _without_busy_time(profile: Profile) -> list[str]:
    """Names of the stages whose copies cannot be charged by busy time, because it was not measured."""
    return [stage.name for stage in profile.stages if _may_be_copied(stage) and stage.busy_ms is None]


def _typical(stage: StageProfile) -> float:
    visited = stage.visited
    if not visited.any():
        return 0.0
    visits = np.nansum(stage.calls_ms[visited], axis=1)
    return max(MIN_COST_MS, float(np.median(visits))) * float(visited.mean())


def _busy(stage: StageProfile) -> float:
    if stage.busy_ms is None:
        return _typical(stage)
    return max(MIN_COST_MS, stage.busy_ms) * stage.calls_per_request


def _mean(stage: StageProfile) -> float:
    if not len(stage.calls_ms):
        return 0.0
    return max(MIN_COST_MS * stage.calls_per_request, float(np.nansum(stage.calls_ms)) / len(stage.calls_ms))


_MODELS: Mapping[str, Callable[[StageProfile], float]] = {
    "typical": _typical,
    "busy": _busy,
    "calls": lambda stage: stage.calls_per_request,
    "mean": _mean,
}


def _given(profile: Profile, model: Mapping[str, float]) -> dict[str, float]:
    known = {stage.name: stage for stage in profile.stages}
    for name, value in model.items():
        if name not in known:
            raise InputError(
                f"stage {name!r} is not in the profile; it has: {', '.join(known)}", where="cost"
            )
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or value < 0 or (value == 0 and known[name].reissuable):
            raise InputError(f"stage {name!r}: must be a finite number above 0, not {value!r}", where="cost")
    lacking = [name for name, stage in known.items() if name not in model and not stage.own_time]
    if lacking:
        raise InputError(f"lacks stage {lacking[0]!r}; every stage needs a cost", where="cost")
    return {name: float(model[name]) * stage.visit_share for name, stage in known.items() if name in model}
