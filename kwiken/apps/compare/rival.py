"""Rival of a plan: copies at one percentile of every stage, for the same budget. Pure.

So are clients of Envoy, gRPC and most hedging libraries set: each stage copies its slowest calls, the same
share at all stages. The delay follows the present latency, so no profile is needed.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan, StagePlan
from kwiken.model.service.stage import MAX_MS, Following, Reissue

MAX_COPIED: Final = 0.5  # of a stage's calls: beyond the median every other call is copied
MIN_MS: Final = 0.1


def one_percentile(plan: Plan) -> Plan:
    """Plan with the budgets, costs and ledger of another one, which copies the same share at each stage.

    Args:
        plan: plan whose spend is matched; stages whose calls must not be copied are left alone here too.

    Raises:
        InputError: the plan has no budget for copies, or no stage may be copied.
    """
    costs = {name: cost for name, cost in plan.cost.stages.items() if not plan.stages[name].once and cost > 0}
    if plan.budgets.reissue <= 0 or not costs:
        raise InputError("sends no copies, so there is no spend to compare it at", where="plan")
    copied = min(MAX_COPIED, plan.budgets.reissue / sum(costs.values()))
    planned_ms = [stage.reissue.after_ms for stage in plan.stages.values() if stage.reissue is not None]
    start_ms = max([MIN_MS, *planned_ms])
    follow = Following(quantile=1 - copied, least_ms=MIN_MS, most_ms=MAX_MS)
    policy = Reissue(after_ms=start_ms, fraction=copied, follow=follow)
    stages = {
        name: StagePlan(match=stage.match, reissue=policy if name in costs else None, once=stage.once)
        for name, stage in plan.stages.items()
    }
    return replace(plan, stages=stages, expected=None)
