"""Plans that are judged beside a plan: its budget spread evenly over the stages, and with hindsight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Costs, Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

PLAN, EVEN, HINDSIGHT = "plan", "even", "hindsight"
MIN_COST = 1e-9  # of a visit: the planner divides by it


def rivals(plan: Plan, earlier: Profile, later: Profile, *, spent: float = 0.0, seed: int) -> dict[str, Plan]:
    """Plans to judge beside a plan, with its reissue budget, its costs and its permissions.

    The calls that may be copied are those that the plan may copy: those that it copies, and those that both
    it and either profile let run twice. The ledger's floor lets the plan spend more than its budget where
    requests are few. Hindsight, which plans on those very requests, would keep to the budget; so what the
    plan spent there is its budget, where that is more.

    Args:
        earlier: requests that the even spread's time-outs are learned on.
        later: requests that are judged; hindsight plans on them.
        spent: extra work that the plan spent on the judged requests, as a share of all work.

    Returns:
        `even` and `hindsight`.

    Raises:
        InputError: for a stage that may be reissued and has no cost in the plan, or too few requests.
    """
    earlier, later = (_permitted(each, plan, (earlier, later)) for each in (earlier, later))
    common = PlanSettings(
        budgets=Budgets(reissue=plan.budgets.reissue),
        created="", insurance=0.0, within=0.0, guarded=False, seed=seed,
    )  # fmt: skip
    even = replace(common, cost=_of_visits(plan.cost, earlier), spread="equal")
    most = min(1.0, max(plan.budgets.reissue, spent))
    hindsight = replace(common, cost=_of_visits(plan.cost, later), budgets=Budgets(reissue=most))
    plans = {EVEN: study_plan(earlier, even).plan, HINDSIGHT: study_plan(later, hindsight).plan}
    # The planner's shares differ by the visits of each profile. Copies cost the same in all arms.
    return {
        way: msgspec.structs.replace(made, cost=plan.cost, ledger=plan.ledger, budgets=plan.budgets)
        for way, made in plans.items()
    }


def _permitted(profile: Profile, plan: Plan, both: Sequence[Profile]) -> Profile:
    """The profile with the permissions to copy that a plan has."""
    allowed = {stage.name for each in both for stage in each.stages if stage.reissuable}
    allowed -= {name for name, stage in plan.stages.items() if stage.once}
    allowed |= {name for name, stage in plan.stages.items() if stage.reissue is not None}
    return replace(
        profile, stages=tuple(replace(stage, reissuable=stage.name in allowed) for stage in profile.stages)
    )


def _of_visits(shares: Costs, profile: Profile) -> dict[str, float]:
    """Cost of a visit of each stage, in any unit."""
    lacking = [stage.name for stage in profile.stages if stage.reissuable and stage.name not in shares.stages]
    if lacking:
        raise InputError(
            f"the plan states no cost of stage {lacking[0]!r}, which the requests have", where="plan"
        )
    return {
        stage.name: max(MIN_COST, shares.stages.get(stage.name, 0.0) / (stage.visit_share or 1.0))
        for stage in profile.stages
        if stage.name in shares.stages
    }
