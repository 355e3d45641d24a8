"""Global reissue: a part of the budget for requests that are already late (Kwiken section 5.5).

The source names the idea and its gain but not the algorithm. Here one age of the request, `late_after_ms`,
triggers it: a call in progress at that age is reissued at once, and later calls are duplicated at their
start. A variant that checks the request's age only when a stage starts makes things worse: the slow call that
made the request late then never gets a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import DagNode, start_times
from kwiken.tail.apportion.sum_of_variances import HulledCurve, sumvar

BISECTIONS = 30  # steps of the search for the age
Sample = Mapping[str, Floats]


@dataclass(frozen=True)
class GlobalReissue:
    """Local time-outs, and an age of the request beyond which allowed stages reissue at once.

    After Kwiken section 5.5.

    Attributes:
        after_ms: local time-out by stage, milliseconds; infinite for none.
        allowed: names of the stages that late requests may reissue.
        late_after_ms: age of a request from which it counts as late, milliseconds; infinite for never.
    """

    after_ms: Mapping[str, float]
    allowed: frozenset[str]
    late_after_ms: float


@dataclass(frozen=True)
class GlobalReissueRun:
    """Result of a policy on sampled requests.

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
) -> GlobalReissueRun:
    """Simulate sampled requests through a DAG (Kwiken section 5.5).

    Args:
        stages: stages, parents before children.
        primary_ms: by stage: (n,) latency of the first attempt.
        copy_ms: by stage: (n,) latency of a copy, if one is sent.
        costs: share of each stage in the whole cost.
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
    return GlobalReissueRun(np.asarray(np.maximum.reduce(sinks)), spent)


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
        stages: stages, parents before children.
        costs: share of each stage in the whole cost.
        samples: recorded first attempts and copies, by stage: (n,) milliseconds.
        time_out: function that gives a stage's local time-out, in ms, for a fraction of its calls.
        budget: total extra cost, as a fraction.
        share: part of the budget kept for late requests, from 0 to 1.

    Returns:
        The policy whose total cost on the samples is the budget, or less if no age would spend it.

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
    """Upper bound of a request's age, milliseconds: all stages one after the other."""
    return float(np.sum([values.max() for values in primary_ms.values()]))


def _least_age(spent: Callable[[float], float], budget: float, longest: float) -> float:
    """Earliest age within the budget; the spend falls with the age, except for noise of copies."""
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
