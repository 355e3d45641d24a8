"""Joint planning of copies and partial answers (Kwiken equation 5.4 for two levers).

Prices for both budgets choose a point on each fan-out's surface. That fixes the fan-out's copies; its stop
rule is then tuned on the calls with these copies, and the rest of the reissue budget goes to the other
stages, which see the fan-outs as planned. (Planning the fan-outs' copies again with their rules would not
converge: early stops make copies look needless, and without copies such rules lose too much.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.plan import Budgets, Costs, PartialPolicy
from kwiken.model.profile import Profile
from kwiken.model.service import Reissue
from kwiken.tail.apportion import Allocation, allocation_of, chosen, with_coins
from kwiken.tail.curves import Curve, stage_curves
from kwiken.tail.partial import PartialSettings, PartialStudy, learnable, loss_weights, study_partial
from kwiken.tail.planning.reissues import ReissueSettings, ReissueStudy, study_reissues
from kwiken.tail.planning.surface import raced_calls, surface
from kwiken.tail.planning.two_budgets import two_budgets
from kwiken.tail.simulation import cut_at_stop

MAX_JUDGING_DRAWS = 4  # draws of copies on which a rule's loss is judged
MAX_JUDGED_CALLS = 1 << 22  # calls in all of these draws; for a wide fan-out one draw is enough
SEED_STEP = 7919  # difference of the seeds of two draws


@dataclass(frozen=True)
class JointPlanner:
    """Planner of copies and partial answers together.

    Attributes:
        shares: cost of each stage.
        budgets: upper bounds of the spend.
        reissue: settings for the reissues of stages that are not fan-outs.
        partial: settings for the stages that may answer in part.
    """

    shares: Costs
    budgets: Budgets
    reissue: ReissueSettings
    partial: PartialSettings

    def plan(self, profile: Profile) -> tuple[PartialStudy, ReissueStudy]:
        """Plan stop rules and reissues for a profile."""
        settings = self.reissue
        curves = stage_curves(profile, seed=settings.seed, copy_correlation=settings.copy_correlation)
        wanted = self._priced(profile, curves)
        reserved = wanted.spent
        copies = chosen(profile, curves, self.shares.stages, with_coins(wanted, curves), seed=settings.seed)
        policies = copies.policies
        calls, *others = _calls_with_copies(profile, policies, self.partial, settings)
        partial = study_partial(
            profile, self.budgets.utility_loss, self.partial, calls_ms=calls, judged_ms=others
        )
        planned = _with_planned_fan_outs(profile, calls, partial.policies, fixed=wanted.fractions)
        rest = study_reissues(planned, self.shares, max(0.0, self.budgets.reissue - reserved), settings)
        return partial, ReissueStudy(
            curves={**curves, **rest.curves},
            allocation=_merged(copies.allocation, rest.allocation),
            verdict=rest.verdict,
            policies={**rest.policies, **policies},
            bounds=rest.bounds,
            between={**rest.between, **copies.between},
            notes=rest.notes,
        )

    def _priced(self, profile: Profile, curves: Mapping[str, Curve]) -> Allocation:
        """Share of the reissue budget for each fan-out, by prices for both budgets."""
        weights = loss_weights(profile, self.partial)
        reissue, loss = self.budgets.reissue, self.budgets.utility_loss
        surfaces = {
            name: surface(
                profile.stage(name),
                curves.get(name),
                most_reissue=reissue / max(self.shares.stages[name], reissue),
                most_loss=min(1.0, loss / weight),
                seed=self.reissue.seed,
            )
            for name, weight in weights.items()
            if learnable(profile.stage(name))
        }
        found = two_budgets(
            curves, surfaces, costs=self.shares.stages, weights=weights, reissue=reissue, loss=loss
        )
        some = {name: curves[name] for name in surfaces if name in curves}
        return allocation_of(some, self.shares.stages, found.reissue)


def tuned_with_copies(
    profile: Profile,
    policies: Mapping[str, Reissue],
    budget: float,
    partial: PartialSettings,
    reissue: ReissueSettings,
) -> PartialStudy:
    """Stop rules tuned on fan-outs' calls with their copies, and judged on other draws of copies.

    Args:
        profile: recorded requests.
        policies: reissue policies by stage.
        budget: mean utility that may be lost, as a share.
        partial: settings for the stages that may answer in part.
        reissue: settings with the correlation of copies and their calls.
    """
    calls, *others = _calls_with_copies(profile, policies, partial, reissue)
    return study_partial(profile, budget, partial, calls_ms=calls, judged_ms=others)


def _calls_with_copies(
    profile: Profile, policies: Mapping[str, Reissue], partial: PartialSettings, reissue: ReissueSettings
) -> list[dict[str, Floats]]:
    """Fan-outs' calls with one draw of copies, and with a few more to judge by if any are sent.

    A loss of a thousandth is a few dozen answers, so a rule tuned on one draw loses up to half as much again
    on others.
    """
    names = tuple(loss_weights(profile, partial))
    cells = sum(profile.stage(name).calls_ms.size for name in names)
    judges = (
        max(1, min(MAX_JUDGING_DRAWS, MAX_JUDGED_CALLS // max(1, cells)))
        if any(name in policies for name in names)
        else 0
    )
    return [
        raced_calls(
            profile,
            policies,
            names,
            seed=partial.seed + draw * SEED_STEP,
            copy_correlation=reissue.copy_correlation,
        )
        for draw in range(1 + judges)
    ]


def _merged(one: Allocation, other: Allocation) -> Allocation:
    return Allocation(
        fractions={**other.fractions, **one.fractions},
        spent=one.spent + other.spent,
        gains={**other.gains, **one.gains},
        marginal={**other.marginal, **one.marginal},
        coins={**other.coins, **one.coins},
    )


def _with_planned_fan_outs(
    profile: Profile,
    calls_ms: Mapping[str, Floats],
    policies: Mapping[str, PartialPolicy],
    *,
    fixed: Mapping[str, object],
) -> Profile:
    """The profile with fan-outs as planned, so that the budgets of other stages account for them."""
    stages = []
    for stage in profile.stages:
        calls = calls_ms.get(stage.name)
        if calls is None:
            stages.append(stage)
            continue
        policy = policies.get(stage.name)
        if policy is not None:
            calls = cut_at_stop(calls, policy)
        stages.append(
            replace(
                stage,
                calls_ms=calls,
                censored=np.zeros(calls.shape, dtype=np.bool_),
                reissuable=stage.reissuable and stage.name not in fixed,
            )
        )
    return replace(profile, stages=tuple(stages))
