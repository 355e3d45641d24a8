"""Copies and partial answers of one plan, found together (Kwiken equation 5.4 for two levers).

Prices for both budgets choose a point on each fan-out's surface. Its copies are then settled, its stop rule
is tuned on the calls as they are with these copies, and what is left of the reissue budget goes to the other
stages, which see the fan-outs as they will be. (Planning the fan-outs' copies anew on what their rules leave
would not rest: early stops make copies look needless, and without copies such rules lose too much.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.apportion import Allocation, allocation_of, chosen, with_coins, within_budget
from kwiken.arrays import Floats
from kwiken.curves import Curve, stage_curves
from kwiken.partial import PartialSettings, PartialStudy, learnable, loss_weights, study_partial
from kwiken.plan import Budgets, Costs, PartialPolicy
from kwiken.planning.reissues import ReissueSettings, ReissueStudy, study_reissues
from kwiken.planning.surface import raced_calls, surface
from kwiken.planning.two_budgets import two_budgets
from kwiken.profile import Profile
from kwiken.service import Reissue
from kwiken.simulation import cut_at_stop

JUDGES = 4  # draws of copies that a rule's loss is judged on
MOST_CELLS = 1 << 22  # calls in all of them; of a wide fan-out one draw tells enough
NEXT_DRAW = 7919  # between their seeds


@dataclass(frozen=True)
class JointPlanner:
    """Plans copies and partial answers together.

    Attributes:
        shares: what stages cost.
        budgets: what may be spent.
        reissue: how reissues of the stages that are no fan-outs are apportioned.
        partial: which stages may answer in part.
    """

    shares: Costs
    budgets: Budgets
    reissue: ReissueSettings
    partial: PartialSettings

    def plan(self, profile: Profile) -> tuple[PartialStudy, ReissueStudy]:
        """Stop rules and reissues of a profile."""
        settings = self.reissue
        curves = stage_curves(profile, seed=settings.seed, copy_correlation=settings.copy_correlation)
        wanted = self._priced(profile, curves)
        reserved = wanted.spent
        kept = within_budget(
            profile,
            {name: self.shares.stages[name] for name in wanted.fractions},
            reserved,
            lambda budget: _scaled(wanted, budget, curves),
        )
        copies = chosen(profile, curves, self.shares.stages, kept.allocation, seed=settings.seed)
        policies = copies.policies
        calls, *others = _calls_with_copies(profile, policies, self.partial, settings)
        partial = study_partial(
            profile, self.budgets.utility_loss, self.partial, calls_ms=calls, judged_ms=others
        )
        settled = _settled(profile, calls, partial.policies, fixed=wanted.fractions)
        rest = study_reissues(settled, self.shares, max(0.0, self.budgets.reissue - reserved), settings)
        share = reserved / self.budgets.reissue if self.budgets.reissue > 0 else 0.0
        return partial, ReissueStudy(
            curves={**curves, **rest.curves},
            allocation=_merged(copies.allocation, rest.allocation),
            margin=share * kept.margin + (1 - share) * rest.margin,
            verdict=rest.verdict,
            policies={**rest.policies, **policies},
            bounds=rest.bounds,
            between={**rest.between, **copies.between},
            notes=rest.notes,
        )

    def _priced(self, profile: Profile, curves: Mapping[str, Curve]) -> Allocation:
        """What fan-outs get of the reissue budget, by the prices of both budgets."""
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
    """Stop rules tuned on fan-outs' calls as they are with their copies, and judged on other copies.

    Args:
        profile: what was learned.
        policies: by stage that reissues.
        budget: mean utility that may be lost.
        partial: which stages may answer in part.
        reissue: how copies hang together with their calls.
    """
    calls, *others = _calls_with_copies(profile, policies, partial, reissue)
    return study_partial(profile, budget, partial, calls_ms=calls, judged_ms=others)


def _calls_with_copies(
    profile: Profile, policies: Mapping[str, Reissue], partial: PartialSettings, reissue: ReissueSettings
) -> list[dict[str, Floats]]:
    """Fan-outs' calls with one draw of copies, and with a few more where any are sent, to judge by.

    A loss of a thousandth is a few dozen answers, so a rule tuned on one draw loses up to half as much again
    on others.
    """
    names = tuple(loss_weights(profile, partial))
    cells = sum(profile.stage(name).calls_ms.size for name in names)
    judges = (
        max(1, min(JUDGES, MOST_CELLS // max(1, cells))) if any(name in policies for name in names) else 0
    )
    return [
        raced_calls(
            profile,
            policies,
            names,
            seed=partial.seed + draw * NEXT_DRAW,
            copy_correlation=reissue.copy_correlation,
        )
        for draw in range(1 + judges)
    ]


def _scaled(wanted: Allocation, budget: float, curves: Mapping[str, Curve]) -> Allocation:
    """The same shape with less spend, and each stage's best coin for it."""
    factor = budget / wanted.spent if wanted.spent > 0 else 0.0
    fractions = {name: factor * share for name, share in wanted.fractions.items()}
    return with_coins(replace(wanted, fractions=fractions, spent=factor * wanted.spent), curves)


def _merged(one: Allocation, other: Allocation) -> Allocation:
    return Allocation(
        fractions={**other.fractions, **one.fractions},
        spent=one.spent + other.spent,
        gains={**other.gains, **one.gains},
        marginal={**other.marginal, **one.marginal},
        coins={**other.coins, **one.coins},
    )


def _settled(
    profile: Profile,
    calls_ms: Mapping[str, Floats],
    policies: Mapping[str, PartialPolicy],
    *,
    fixed: Mapping[str, object],
) -> Profile:
    """The profile with fan-outs as they will be, so that other stages' budgets see them so."""
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
