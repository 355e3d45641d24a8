"""Worth of budgets: what each cuts of p99 on later requests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile
from kwiken.tail.judging.judge_plan import judge
from kwiken.tail.judging.judged_plans import PLAN
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

BUDGETS: Final = (0.01, 0.02, 0.03, 0.05)
MIN_SHOWN: Final = 0.005  # of p99, that a plan must cut more than one that spends less
KNEE_SHARE: Final = 0.9  # of the largest cut, that the budget at the knee buys


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """Gain of one budget: a plan of the earlier half of the requests, on the later half.

    Attributes:
        budget: reissue budget, as a share of all work.
        plan_budget: budget of the plan; less than that where more bought nothing, 0 where no plan bought any.
        p99_ms: p99 of the later half with the plan, milliseconds.
        cut: share by which p99 falls; below 0 where it rises.
        low: lower bound of the cut (90% interval).
        high: upper bound of the cut.
        spent: extra work, as a share of all work.
        stages: names of the stages that get copies, largest spend first.
    """

    budget: float
    plan_budget: float
    p99_ms: float
    cut: float
    low: float
    high: float
    spent: float
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Halves:
    """The earlier and the later half of requests, and the settings of plans for them.

    Attributes:
        earlier: requests that plans are made from.
        settings: settings of the plans, but for the budget.
        sampled: share of the service's requests that both hold.
    """

    earlier: Profile
    later: Profile
    settings: PlanSettings
    sampled: float

    def worth(self, budgets: Collection[float] = BUDGETS) -> tuple[Worth, ...]:
        """Gain of each budget, smallest budget first; none spends more than a smaller one for no more gain.

        A larger budget may run the plan of a smaller one, and no copies cost nothing. So a plan that spends
        more than another of them, and cuts no more by whole percents, is no budget's.

        Args:
            budgets: reissue budgets, each a share above 0 and at most 1.
        """
        judged = [self._of(budget) for budget in sorted(set(budgets))]
        nothing = {"budget": 0.0, "plan_budget": 0.0, "cut": 0.0, "low": 0.0, "high": 0.0, "spent": 0.0}
        front = [Worth(p99_ms=judged[0][0], stages=(), **nothing)]
        for _, each in sorted(judged, key=lambda pair: (pair[1].spent, -pair[1].cut, pair[1].budget)):
            if each.cut - front[-1].cut >= MIN_SHOWN:
                front.append(each)
        rows = []
        for _, own in judged:
            best = max((each for each in front if each.budget <= own.budget), key=lambda each: each.cut)
            same = (own.spent, own.cut) == (best.spent, best.cut)
            rows.append(own if same else msgspec.structs.replace(best, budget=own.budget))
        return tuple(rows)

    def _of(self, budget: float) -> tuple[float, Worth]:
        """p99 of the later half without copies, milliseconds, and the gain of the budget's own plan."""
        study = study_plan(self.earlier, replace(self.settings, budgets=Budgets(reissue=budget)))
        seed = self.settings.seed
        found = judge(
            study.plan, self.later, sampled=self.sampled, correlations=(None,), alone=True, seed=seed
        )
        arm = found.arm(PLAN)
        p99 = arm.cuts["p99_ms"]
        spent = study.simulation.stage_spent
        copied = [name for name, stage in study.plan.stages.items() if stage.reissue is not None]
        return found.before.p99_ms, Worth(
            budget=budget,
            plan_budget=budget,
            p99_ms=arm.after.p99_ms,
            cut=p99.share,
            low=p99.low,
            high=p99.high,
            spent=arm.spent,
            stages=tuple(sorted(copied, key=lambda name: (-spent.get(name, 0.0), name))),
        )


def knee(worth: Sequence[Worth]) -> Worth | None:
    """The smallest budget that buys nearly as much as any other; None where no interval is above 0.

    Args:
        worth: what each budget buys, smallest budget first.
    """
    best = max((each.cut for each in worth if each.low > 0), default=0.0)
    return next((each for each in worth if each.low > 0 and each.cut >= KNEE_SHARE * best), None)
