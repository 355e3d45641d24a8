"""Comparison of stop rules: tuned on the earlier queries, judged on the later ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.partial.learned_wait import tune_learned_wait
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import apply_rule
from kwiken.tail.partial.tuning import (
    Tuned,
    tune_fixed_timeout,
    tune_stop_rule,
    tune_time_then_fraction,
    tune_wait_for_fraction,
)

LEARNED_SHARE = 0.5  # share of the queries to tune on
PERCENTILES = (50, 75, 90, 95, 99)
RULES: Mapping[str, Callable[..., Tuned]] = {
    "dynamic": tune_stop_rule,
    "learned wait": tune_learned_wait,
    "time then fraction": tune_time_then_fraction,
    "fixed time-out": tune_fixed_timeout,
    "wait for fraction": tune_wait_for_fraction,
}


class RuleVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a stop rule on queries that it was not tuned on.

    Attributes:
        name: name of the rule.
        parameters: tuned parameters, times in milliseconds; infinite where a condition is off.
        loss: mean utility lost, a share.
        variance_left: ratio of the latency's variance to that of waiting for all responders.
        cuts: share by which each percentile falls, by its name.
    """

    name: str
    parameters: dict[str, float]
    loss: float
    variance_left: float
    cuts: dict[str, float]


def compare_stop_rules(
    responders: Responders, loss: float, *, learned: float = LEARNED_SHARE
) -> tuple[RuleVerdict, ...]:
    """Tune every rule on the first queries and judge it on the rest (Kwiken section 5.3).

    Args:
        responders: recorded queries, in order of time.
        loss: mean utility that may be lost, from 0 to 1.
        learned: share of the queries to tune on, between 0 and 1.

    Returns:
        Result of each rule, least variance first.

    Raises:
        InputError: for a loss outside [0, 1], or too few queries to split.
    """
    count = int(learned * len(responders))
    if not 0 < count < len(responders):
        raise InputError(f"cannot split {len(responders)} queries at a share of {learned}", where="learned")
    early, late = responders.rows(slice(count)), responders.rows(slice(count, None))
    verdicts = [_verdict(name, tune(early, loss=loss), late) for name, tune in RULES.items()]
    return tuple(sorted(verdicts, key=lambda verdict: verdict.variance_left))


def _verdict(name: str, tuned: Tuned, late: Responders) -> RuleVerdict:
    latency, lost = apply_rule(tuned.rule, late)
    base = late.last_ms
    variance = float(base.var())
    return RuleVerdict(
        name=name,
        parameters={field: float(value) for field, value in vars(tuned.rule).items()},
        loss=float(lost.mean()),
        variance_left=float(latency.var()) / variance if variance > 0 else 1.0,
        cuts={f"p{p}": _cut(base, latency, p) for p in PERCENTILES},
    )


def _cut(before: Floats, after: Floats, percentile: int) -> float:
    old = float(np.percentile(before, percentile))
    return 1.0 - float(np.percentile(after, percentile)) / old if old > 0 else 0.0
