"""Evaluation of every stop rule at each fan-out of a service, on its recorded calls (Kwiken section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kwiken.base.arrays import Ints
from kwiken.base.errors import InputError
from kwiken.model.profile import Profile, StageProfile, call_distribution, complete_calls
from kwiken.tail.partial.comparison import RuleVerdict, compare_stop_rules
from kwiken.tail.partial.loss_curve import FanOut

MIN_VISITS = 100  # visits of a fan-out needed; half of them are tuned on


class FanOutRules(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the stop rules at one fan-out.

    Attributes:
        stage: name of the fan-out.
        shards: largest number of answers that a visit waits for.
        visits: number of recorded visits; rules are tuned on the earlier half and judged on the later.
        rules: results of the rules, least variance first.
    """

    stage: str
    shards: int
    visits: int
    rules: tuple[RuleVerdict, ...]


def fan_out_rules(profile: Profile, loss: float, *, seed: int = 0) -> tuple[FanOutRules, ...]:
    """Tune every stop rule at every fan-out on the earlier visits, and judge it on the later ones.

    Among them is the learned wait (after Kumar et al. 2016), which plans and gateways do not support: it
    shows the further gain beyond the dynamic rule.

    Args:
        profile: recorded requests.
        loss: mean utility of a stage that may be lost, above 0 and at most 1.
        seed: seed of the estimates that replace cancelled calls.

    Raises:
        InputError: for a loss outside (0, 1], or a profile without a fan-out with enough visits.
    """
    if not 0 < loss <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {loss}", where="loss")
    found = tuple(_rules(profile, loss, seed))
    if not found:
        raise InputError(
            f"no stage is a fan-out with {MIN_VISITS} visits or more, so no stop rule can be judged",
            where="profile",
        )
    return found


def _rules(profile: Profile, loss: float, seed: int) -> Iterator[FanOutRules]:
    order = np.argsort(profile.started_s, kind="stable")
    for i, stage in enumerate(profile.stages):
        if stage.calls_ms.shape[1] > 1 and stage.visited.sum() >= MIN_VISITS:
            yield _of_stage(stage, order, loss, np.random.default_rng([seed, i]))


def _of_stage(stage: StageProfile, order: Ints, loss: float, rng: np.random.Generator) -> FanOutRules:
    fan_out = FanOut.of(stage, complete_calls(stage, call_distribution(stage), rng))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    in_time = fan_out.responders.rows(np.argsort(place[fan_out.rows], kind="stable"))
    with np.errstate(over="ignore"):  # from infinite waits
        rules = compare_stop_rules(fan_out.thinned(in_time), loss)
    return FanOutRules(
        stage=stage.name, shards=stage.calls_ms.shape[1], visits=len(fan_out.rows), rules=rules
    )
