"""Global reissue: part of the budget goes to requests that are late already (Kwiken section 5.5).

The source names the idea and its gain but not the algorithm. Here one age of the request, `late_after_ms`,
arms it: a call in flight when its request reaches that age is reissued at once, and later calls are
duplicated at their start. A variant that looks at the request's age only when a stage starts makes things
worse: the laggard that made the request late is then never helped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.apportion import HulledCurve, sumvar
from kwiken.arrays import Floats
from kwiken.errors import InputError
from kwiken.latency import DagNode, start_times

BISECTIONS = 30
Sample = Mapping[str, Floats]


@dataclass(frozen=True)
class GlobalReissue:
    """Local time-outs, and an age of the request beyond which the allowed stages reissue at once.

    After Kwiken section 5.5.

    Attributes:
        after_ms: by stage: local time-out; infinite for none.
        allowed: stages that late requests may reissue.
        late_after_ms: age of a request from which it counts as late; infinite for never.
    """

    after_ms: Mapping[str, float]
    allowed: frozenset[str]
    late_after_ms: float


@dataclass(frozen=True)
class Outcome:
    """What a policy does to sampled requests.

    Attributes:
        latency_ms: (n,) latency of the requests.
        spent: extra cost, as a fraction of all stages' cost.
    """

    latency_ms: Floats
    spent: float


def run_global_reissue(
    stages: Sequence[DagNode],
    primary_ms: Sample,
    copy_ms: Sample,
    policy: GlobalReissue,
    costs: Mapping[str, float],
) -> Outcome:
    """Play sampled requests through a DAG (Kwiken section 5.5).

    Args:
        stages: parents before children.
        primary_ms: by stage: (n,) latency of the first attempt.
        copy_ms: by stage: (n,) latency of a copy, should there be one.
        policy: when copies go.
        costs: by stage: share of the whole cost.
    """
    ends: dict[str, Floats] = {}
    spent = 0.0
    for stage in stages:
        first = primary_ms[stage.name]
        start = start_times(stage, ends)
        start = np.zeros(len(first)) if start is None else start
        wait = np.full(len(first), policy.after_ms[stage.name])
        if stage.name in policy.allowed:
            wait = np.minimum(wait, np.maximum(0.0, policy.late_after_ms - start))
        late = first > wait
        spent += costs[stage.name] * float(late.mean())
        ends[stage.name] = start + np.where(late, np.minimum(first, wait + copy_ms[stage.name]), first)
    inner = {parent for stage in stages for parent in stage.after}
    sinks = [ends[stage.name] for stage in stages if stage.name not in inner]
    return Outcome(np.asarray(np.maximum.reduce(sinks)), spent)


def tune_global_reissue(
    stages: Sequence[DagNode],
    curves: Mapping[str, HulledCurve],
    costs: Mapping[str, float],
    samples: tuple[Sample, Sample],
    *,
    time_out: Callable[[str, float], float],
    budget: float,
    share: float,
) -> GlobalReissue:
    """Split a budget into local time-outs and help for late requests (Kwiken section 5.5).

    Args:
        stages: parents before children.
        curves: variance-response curve by stage.
        costs: by stage: share of the whole cost.
        samples: recorded first attempts and copies, by stage: (n,) milliseconds.
        time_out: local time-out, in ms, at which a stage reissues a fraction of its calls.
        budget: extra cost in all, as a fraction.
        share: part of the budget kept for late requests, from 0 to 1.

    Returns:
        The policy whose total cost on the samples is the budget, or less where no age would spend it.

    Raises:
        InputError: for a share outside [0, 1].
    """
    if not 0 <= share <= 1:
        raise InputError(f"the share for late requests must be from 0 to 1, not {share}")
    local = sumvar(curves, costs, budget * (1 - share)).fractions
    whole = sumvar(curves, costs, budget).fractions
    after = {name: time_out(name, fraction) for name, fraction in local.items()}
    allowed = frozenset(name for name, fraction in whole.items() if fraction > 0)

    def spent(late_after_ms: float) -> float:
        policy = GlobalReissue(after, allowed, late_after_ms)
        return run_global_reissue(stages, *samples, policy, costs).spent

    return GlobalReissue(after, allowed, _least_age(spent, budget, _longest(samples[0])))


def _longest(primary_ms: Sample) -> float:
    """No request is older than all its stages one after the other."""
    return float(np.sum([values.max() for values in primary_ms.values()]))


def _least_age(spent: Callable[[float], float], budget: float, longest: float) -> float:
    """The earliest age within the budget; the later the age, the less is spent, but for noise of copies."""
    low, high = 0.0, longest
    if spent(low) <= budget:
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if spent(middle) <= budget:
            high = middle
        else:
            low = middle
    return high
