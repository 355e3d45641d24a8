"""Planning of partial answers: a budget of lost utility apportioned over fan-outs (Kwiken section 5.3).

Losses add up: a unit of a stage's loss costs the whole answer that stage's weight. Where every part of an
answer is needed the weight is 1, and the sum bounds `1 - prod(1 - r)` from above; where parts count
independently the weight is the stage's share of the utility weights, and the sum is exact. For other DAGs
weights of 1 are safe, because no request loses more than its stages do together.

A rule loses more on later requests than on those that it was tuned on, so rules are tuned for a smaller
budget, by as much as the profile's own history requires.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import PartialPolicy
from kwiken.model.profile.profile import Profile, StageProfile, complete_calls
from kwiken.tail.apportion.margin import Rows, likely_mean, tightened
from kwiken.tail.apportion.sum_of_variances import Allocation, sumvar
from kwiken.tail.partial.loss_curve import FanOutVisits, LossCurve, loss_curve
from kwiken.tail.partial.notes import (
    FewShards,
    LossesAddedUp,
    LossTooSmall,
    NoFanOut,
    NoStopRuleHelps,
    PartialNote,
    TooFewVisits,
    UtilityKeptBack,
)
from kwiken.tail.partial.stop_rules import StopRule
from kwiken.tail.simulation.stage_replay import cut_at_stop

NO_LOSS = Allocation({}, 0.0, {}, {})
MIN_VISITS = 50  # visits below which a share of lost answers is not meaningful


@dataclass(frozen=True)
class PartialStudy:
    """Stop rules for a budget of lost utility, with the findings behind them.

    Attributes:
        policies: stop rule of each stage that may answer in part.
        curves: variance against loss of each stage that was considered.
        allocation: loss that each stage may cause.
        apportioned: share of the budget that rules were tuned for; the rest is the margin.
        weights: cost of a unit of each stage's loss to the whole answer.
        notes: what a reader of the plan should know.
    """

    policies: Mapping[str, PartialPolicy] = field(default_factory=dict)
    curves: Mapping[str, LossCurve] = field(default_factory=dict)
    allocation: Allocation = NO_LOSS
    apportioned: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[PartialNote, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartialSettings:
    """Choice of the stages that may answer in part, and weights of their losses.

    Attributes:
        stages: names of these fan-outs; None for all of them.
        weights: relative part of each stage in the utility of the whole answer, where parts count
            independently; None where an answer needs every stage's part.
        seed: seed of the estimates that replace cancelled calls.
    """

    stages: Collection[str] | None = None
    weights: Mapping[str, float] | None = None
    seed: int = 0


def fan_outs(profile: Profile, allowed: Collection[str] | None) -> list[StageProfile]:
    """Stages whose answers may be partial.

    Args:
        allowed: names of the stages; None for every fan-out.

    Raises:
        InputError: for a name that is not a fan-out of the profile.
    """
    wide = {stage.name: stage for stage in profile.stages if stage.calls_ms.shape[1] > 1}
    for name in allowed or ():
        if name not in {stage.name for stage in profile.stages}:
            known = ", ".join(wide) or "none"
            raise InputError(f"stage {name!r} is not in the profile; its fan-outs: {known}", where="partial")
        if name not in wide:
            raise InputError(
                f"stage {name!r} has one shard, so its answer cannot be partial", where="partial"
            )
    return [stage for name, stage in wide.items() if allowed is None or name in allowed]


def learnable(stage: StageProfile) -> bool:
    """Whether a fan-out has enough visits to measure the effect of missing answers."""
    return bool(stage.visited.sum() >= MIN_VISITS)


def loss_weights(profile: Profile, settings: PartialSettings) -> dict[str, float]:
    """Cost of a unit of loss to the whole answer, by fan-out that may be partial; see `sequential_costs`.

    Args:
        settings: choice of the stages and weights of their losses.

    Raises:
        InputError: for stages that are not fan-outs, or weights that lack one of them or are not valid.
    """
    return _weights(profile, fan_outs(profile, settings.stages), settings.weights)


def study_partial(
    profile: Profile,
    budget: float,
    settings: PartialSettings,
    *,
    calls_ms: Mapping[str, Floats] | None = None,
    judged_ms: Sequence[Mapping[str, Floats]] = (),
) -> PartialStudy:
    """Apportion a budget of lost utility over fan-outs (Kwiken section 5.3).

    Args:
        budget: mean utility that may be lost, as a fraction.
        settings: choice of the stages and weights of their losses.
        calls_ms: by stage: (n, width) latencies that replace the recorded ones, for example with copies.
        judged_ms: further draws of the same, (n, width) by stage, each equally likely: losses are judged on
            these, because a rule fits the copies that it was tuned on. By default `calls_ms` itself.

    Returns:
        Rules that keep the budget in nine of ten later periods, as far as the profile's history tells.

    Raises:
        InputError: for stages that are not fan-outs, or weights that lack one of them or are not valid.
    """
    stages = fan_outs(profile, settings.stages)
    weights = _weights(profile, stages, settings.weights)
    if budget <= 0:
        return PartialStudy()
    if not stages:
        return PartialStudy(notes=(NoFanOut(),))
    enough = [stage for stage in stages if learnable(stage)]
    places = {stage.name: i for i, stage in enumerate(profile.stages)}
    found = {
        stage.name: FanOutVisits.of(stage, _calls(stage, calls_ms, [settings.seed, places[stage.name]]))
        for stage in enough
    }
    judges = [
        {stage.name: FanOutVisits.of(stage, calls[stage.name]) for stage in enough} for calls in judged_ms
    ]
    lever = _Lever(profile, found, weights, budget, judges)
    allocation, apportioned = tightened(budget, lever.apportion, lever.likely)
    policies = lever.policies(allocation)
    few = tuple(stage.name for stage in stages if stage not in enough)
    rare = (TooFewVisits(few),) if few else ()
    return PartialStudy(
        policies,
        lever.curves,
        allocation,
        apportioned,
        weights,
        (*_notes(found, budget, apportioned, policies, settings), *rare),
    )


def _weights(
    profile: Profile, stages: Collection[StageProfile], given: Mapping[str, float] | None
) -> dict[str, float]:
    """Cost of a unit of each stage's loss to the whole answer."""
    if given is None:
        return sequential_costs(dict.fromkeys((stage.name for stage in stages), 1.0))
    lacking = [stage.name for stage in stages if stage.name not in given]
    if lacking:
        raise InputError(
            f"lacks a weight for stage {lacking[0]!r}, which may be partial", where="utility weights"
        )
    known = [stage.name for stage in profile.stages]
    for name in given:
        if name not in known:
            raise InputError(
                f"stage {name!r} is not in the profile; it has: {', '.join(known[:8])}",
                where="utility weights",
            )
    costs = independent_costs(given)
    return {stage.name: costs[stage.name] for stage in stages}


def _calls(stage: StageProfile, calls_ms: Mapping[str, Floats] | None, seed: list[int]) -> Floats:
    """Calls of a stage as in a plan's replay, with estimates for cancelled ones."""
    if calls_ms is not None and stage.name in calls_ms:
        return calls_ms[stage.name]
    return complete_calls(stage, stage.distribution, np.random.default_rng(seed))


class _Lever:
    """Fan-outs of a profile, with the loss and variance that a budget of lost utility gives."""

    def __init__(
        self,
        profile: Profile,
        fan_outs: Mapping[str, FanOutVisits],
        weights: Mapping[str, float],
        budget: float,
        judges: Sequence[Mapping[str, FanOutVisits]] = (),
    ) -> None:
        self._order = np.argsort(profile.started_s, kind="stable")
        self._fan_outs = fan_outs
        self._judges = tuple(judges) or (fan_outs,)
        self._weights = weights
        self.curves = {
            name: loss_curve(fan_out, most=min(1.0, budget / weights[name]))
            for name, fan_out in fan_outs.items()
        }
        self._rules: dict[tuple[str, float, int], StopRule | None] = {}

    def apportion(self, budget: float) -> Allocation:
        """Apportion a budget over fan-outs by the sum of variances."""
        costs = {name: self._weights[name] for name in self.curves}
        return sumvar(self.curves, costs, budget)

    def likely(self, allocation: Allocation) -> float:
        """Upper bound of the mean loss of nine in ten later periods."""
        planned = float(self._lost(allocation, self._order, self._order).mean())
        if planned <= 0:
            return 0.0
        return likely_mean(self._order, planned, lambda early, late: self._lost(allocation, early, late))

    def policies(self, allocation: Allocation) -> dict[str, PartialPolicy]:
        """Stop rules of an allocation, tuned on all requests."""
        found = {}
        for name, fan_out in self._fan_outs.items():
            rule = self._rule(name, allocation.fractions[name], self._order)
            if rule is not None:
                loss = float(np.mean([judge[name].moments(rule)[0] for judge in self._judges]))
                found[name] = policy_of(rule, loss, fan_out.calls_ms.shape[1], self._weights[name])
        return found

    def _rule(self, name: str, loss: float, learned: Rows) -> StopRule | None:
        """The stage's rule tuned on a part of the requests; cached, as the same ones recur often."""
        key = (name, loss, len(learned))
        if key not in self._rules:
            fan_out = self._fan_outs[name]
            some = None if len(learned) == fan_out.requests else fan_out.among(learned)
            self._rules[key] = fan_out.tuned(loss, some) if loss > 0 else None
        return self._rules[key]

    def _lost(self, allocation: Allocation, learned: Rows, judged: Rows) -> Floats:
        """(k,): loss of the judged requests under rules tuned on others."""
        lost = np.zeros(len(self._order))
        for name in self._fan_outs:
            rule = self._rule(name, allocation.fractions[name], learned)
            for judge in self._judges if rule is not None else ():
                lost[judge[name].rows] += self._weights[name] * judge[name].play(rule)[1]
        return lost[judged] / len(self._judges)


def policy_of(rule: StopRule, loss: float, shards: int, weight: float) -> PartialPolicy:
    """A stop rule in the form of a plan's policy.

    Args:
        loss: mean loss under the rule, a share.
        weight: cost of a unit of the stage's loss to the whole answer.
    """
    needed = math.ceil(round(rule.progress * shards, 9))
    exact = math.ceil(rule.progress * shards) == needed  # otherwise rounding would require one more shard
    return PartialPolicy(
        cutoff_ms=rule.cutoff_ms if math.isfinite(rule.cutoff_ms) else None,
        wait_ms=rule.wait_ms if math.isfinite(rule.wait_ms) else None,
        progress=rule.progress if exact else (needed - 0.5) / shards,
        loss=loss,
        weight=weight,
    )


def shortened(profile: Profile, policies: Mapping[str, PartialPolicy], *, seed: int = 0) -> Profile:
    """The profile with the calls of fan-outs cut at their stop: none lasts longer than its visit.

    Where copies answer earlier the rules stop earlier still, so planning on this profile is conservative.

    Args:
        seed: seed of the estimates that replace cancelled calls.
    """
    stages = []
    for i, stage in enumerate(profile.stages):
        policy = policies.get(stage.name)
        if policy is None:
            stages.append(stage)
            continue
        cut = cut_at_stop(_calls(stage, None, [seed, i]), policy)
        stages.append(replace(stage, calls_ms=cut, censored=np.zeros(cut.shape, dtype=np.bool_)))
    return replace(profile, stages=tuple(stages))


def _notes(
    found: Mapping[str, FanOutVisits],
    budget: float,
    apportioned: float,
    policies: Mapping[str, PartialPolicy],
    settings: PartialSettings,
) -> list[PartialNote]:
    """Notes on the fan-outs that stop rules were tuned for."""
    notes: list[PartialNote] = [
        _idle(name, fan_out, budget) for name, fan_out in found.items() if name not in policies
    ]
    if policies and apportioned < 1:
        notes.append(UtilityKeptBack(apportioned))
    if policies and settings.weights is None and len(found) > 1:
        notes.append(LossesAddedUp(tuple(found)))
    shards = {name: found[name].calls_ms.shape[1] for name in policies}
    return [*notes, *(FewShards(name, count, budget) for name, count in shards.items() if count * budget < 1)]


def _idle(name: str, fan_out: FanOutVisits, budget: float) -> LossTooSmall | NoStopRuleHelps:
    """Reason why a fan-out gets no stop rule."""
    if fan_out.least_loss > budget:
        return LossTooSmall(name, fan_out.requests, budget, float(fan_out.least_loss))
    return NoStopRuleHelps(name)


def sequential_costs(stages: Mapping[str, float]) -> dict[str, float]:
    """Cost of a unit of loss at each stage, where every part is needed: 1 each, not normalised.

    After Kwiken section 5.3.

    The sum of losses bounds the loss of the whole answer from above, so a budget for the sum is safe.

    Args:
        stages: mapping with the stages' names as keys; its values, for example losses or weights, are
            ignored.
    """
    return dict.fromkeys(stages, 1.0)


def independent_costs(weights: Mapping[str, float]) -> dict[str, float]:
    """Cost of a unit of loss at each stage, where parts count by weight: shares of the weights.

    After Kwiken section 5.3.

    Args:
        weights: relative part of each stage in the utility of the whole answer, above 0.

    Raises:
        InputError: for a weight that is not a finite number above 0.
    """
    for name, weight in weights.items():
        if not (np.isfinite(weight) and weight > 0):
            raise InputError(
                f"stage {name!r}: its utility weight must be a finite number above 0, not {weight}"
            )
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
