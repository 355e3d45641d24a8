"""Other ways to spend a plan's reissue budget: evenly over the stages, and with hindsight."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan import Budgets, Costs, Plan
from kwiken.model.profile import Profile
from kwiken.tail.planning import PlanSettings, study_plan

PLAN, EVEN, HINDSIGHT = "plan", "even", "hindsight"
MIN_COST = 1e-9  # of a visit: the planner divides by it


def rivals(plan: Plan, earlier: Profile, later: Profile, *, seed: int) -> dict[str, Plan]:
    """Plans to judge beside a plan, with its reissue budget and its costs.

    Args:
        earlier: requests that the even spread's time-outs are learned on.
        later: requests that are judged; hindsight plans on them.

    Returns:
        `even` and `hindsight`.

    Raises:
        InputError: for a stage that may be reissued and has no cost in the plan, or too few requests.
    """
    common = PlanSettings(
        budgets=Budgets(reissue=plan.budgets.reissue), created="", insurance=0.0, guarded=False, seed=seed
    )
    even = replace(common, cost=_of_visits(plan.cost, earlier), spread="equal")
    hindsight = replace(common, cost=_of_visits(plan.cost, later))
    plans = {EVEN: study_plan(earlier, even).plan, HINDSIGHT: study_plan(later, hindsight).plan}
    # The planner's shares differ by the visits of each profile. Copies cost the same in all arms.
    return {
        way: msgspec.structs.replace(made, cost=plan.cost, ledger=plan.ledger) for way, made in plans.items()
    }


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
