"""Proposal of a plan: learned from earlier requests, judged on later ones beside the plan in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.plan.plan import Budgets, Ladder, Plan
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of
from kwiken.tail.judging.judge_plan import judge
from kwiken.tail.judging.judged_plans import PLAN
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.queueing.load.decompose import known_utilisation

LEARN_SHARE: Final = 2 / 3  # of the requests, the earlier ones; a plan is judged on the others
MIN_LEARN: Final = 600  # requests from which a plan is learned, and half as many on which it is judged


@dataclass(frozen=True, kw_only=True)
class PlanProposal:
    """A plan, with what it and the plan in force would have done for requests that neither was learned from.

    Attributes:
        learned: number of requests that the plan was learned from.
        judged: number of later requests that it was judged on.
        none_p99_ms: p99 of these without any plan, milliseconds.
        in_force_p99_ms: p99 with the plan in force, milliseconds; that without a plan where none is.
        plan_p99_ms: p99 with the new plan, milliseconds.
        surely: whether the new plan cuts p99 within the confidence interval of the judgement.
        spent: extra work of the new plan, as a share of all work.
    """

    plan: Plan
    learned: int
    judged: int
    none_p99_ms: float
    in_force_p99_ms: float
    plan_p99_ms: float
    surely: bool
    spent: float

    @property
    def gain(self) -> float:
        """Share by which p99 falls below that of the plan in force; below 0 where it rises."""
        return 1.0 - self.plan_p99_ms / self.in_force_p99_ms if self.in_force_p99_ms > 0 else 0.0

    def gain_over(self, known_ms: float | None) -> float:
        """The gain, or that over the p99 of the plan in force which all requests show if that is less.

        Args:
            known_ms: that p99, milliseconds, above 0; None where it is not known.
        """
        return self.gain if known_ms is None else min(self.gain, 1.0 - self.plan_p99_ms / known_ms)


def propose(
    profile: Profile,
    in_force: Plan | None,
    *,
    budget: float,
    created: str,
    sampled: float = 1.0,
    seed: int = 0,
) -> PlanProposal:
    """Make a plan from the earlier two thirds of the requests, and judge it on the others.

    Args:
        profile: recent requests, whatever plans they ran with.
        budget: reissue budget, a share above 0 and at most 1.
        created: RFC 3339 time to note in the plan.
        sampled: share of the service's requests that the profile holds, above 0 and at most 1.
        seed: seed of all draws.

    Raises:
        InputError: there are too few requests, or no plan can be made of them.
    """
    needed = MIN_LEARN + MIN_LEARN // 2
    if profile.requests < needed:
        raise InputError(f"{profile.requests} requests are known, and {needed} are needed", where="profile")
    order = np.argsort(profile.started_s, kind="stable")
    cut = int(LEARN_SHARE * len(order))
    earlier, later = part_of(profile, order[:cut]), part_of(profile, order[cut:])
    settings = PlanSettings(budgets=Budgets(reissue=budget), created=created, seed=seed)
    plan = _planned(earlier, settings)
    judged = judge(plan, later, earlier=earlier, sampled=sampled, correlations=(None,), alone=True, seed=seed)
    arm = judged.arm(PLAN)
    return PlanProposal(
        plan=plan,
        learned=earlier.requests,
        judged=later.requests,
        none_p99_ms=judged.before.p99_ms,
        in_force_p99_ms=_with(in_force, later, judged.before, sampled=sampled, seed=seed),
        plan_p99_ms=arm.after.p99_ms,
        surely=arm.cuts["p99_ms"].low > 0,
        spent=arm.spent,
    )


def _planned(profile: Profile, settings: PlanSettings) -> Plan:
    """Plan that accounts for the load of its copies.

    Where replicas seem busier than any queue could be, nobody knows what copies would do to them, and a trial
    cannot tell: load slows the requests with and without the plan alike. So there is no plan then.

    Raises:
        InputError: there is no plan; says why.
    """
    busy = known_utilisation(profile, settings.queues)
    if (most := max(busy.values(), default=0.0)) >= 1:
        stage = max(busy, key=lambda name: busy[name])
        raise InputError(
            f"stage {stage!r} seems busy {most:.0%} of the time, so what the load of copies would do is not "
            "known, and none are sent",
            where="profile",
        )
    return study_plan(profile, settings).plan


def _with(plan: Plan | None, later: Profile, without: Ladder, *, sampled: float, seed: int) -> float:
    """The p99 of later requests with a plan, milliseconds; one that does not fit them changes nothing."""
    if plan is None:
        return without.p99_ms
    try:
        judged = judge(plan, later, sampled=sampled, correlations=(None,), alone=True, seed=seed)
    except (InputError, DefinitionError, KeyError):
        return without.p99_ms
    return judged.arm(PLAN).after.p99_ms
