"""Worth of budgets: what each cuts of p99 on later requests, without shares that cut nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import percentiles_of
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.sum_of_variances import choices_of
from kwiken.tail.judging.judge_plan import judge
from kwiken.tail.judging.judged_plans import PLAN
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings, PlanStudy
from kwiken.tail.simulation.common_random_numbers import PairedSimulation, compared_rows

BUDGETS: Final = (0.01, 0.02, 0.03, 0.05)
MIN_EFFECT: Final = 0.01  # of p99, or of the mean beyond p95, that copies of a stage must cut
MAX_ROUNDS: Final = 3  # in which stages whose copies cut nothing are left out
NONE: Final = (0.0, 1.0)  # no copies
KNEE_SHARE: Final = 0.9  # of the largest cut, that the budget at the knee buys


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """Gain of one budget: a plan of the earlier half of the requests, on the later half.

    Attributes:
        budget: reissue budget, as a share of all work.
        p99_ms: p99 of the later half with the plan, milliseconds.
        cut: share by which p99 falls; below 0 where it rises.
        low: lower bound of the cut (90% interval).
        high: upper bound of the cut.
        spent: extra work, as a share of all work.
        stages: names of the stages that get copies, largest spend first.
    """

    budget: float
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
        """Gain of each budget, smallest budget first.

        Args:
            budgets: reissue budgets, each a share above 0 and at most 1.
        """
        return tuple(self._of(budget) for budget in sorted(set(budgets)))

    def _of(self, budget: float) -> Worth:
        study = useful_plan(self.earlier, replace(self.settings, budgets=Budgets(reissue=budget)))
        seed = self.settings.seed
        found = judge(
            study.plan, self.later, sampled=self.sampled, correlations=(None,), alone=True, seed=seed
        )
        arm = found.arm(PLAN)
        p99 = arm.cuts["p99_ms"]
        spent = study.simulation.stage_spent
        copied = [name for name, stage in study.plan.stages.items() if stage.reissue is not None]
        return Worth(
            budget=budget,
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


def useful_plan(profile: Profile, settings: PlanSettings) -> PlanStudy:
    """Make a plan in which every stage with copies cuts p99, or the mean beyond p95, of the requests.

    Stages whose copies cut neither get none, and the planner apportions the budget to the others anew.
    Nothing insures stages that never stalled: who reads an advice asks for what is seen to help.

    Args:
        settings: settings of the plan; its insurance is left out.
    """
    settings = replace(settings, insurance=0.0)
    study = study_plan(profile, settings)
    for _ in range(MAX_ROUNDS):
        useless = _useless(profile, study, settings.seed)
        if not useless:
            break
        profile = not_copied(profile, useless)
        study = study_plan(profile, settings)
    return study


def not_copied(profile: Profile, stages: Collection[str]) -> Profile:
    """The profile with some stages that may not be copied.

    Args:
        profile: the one whose stages may get copies.
    """
    return replace(
        profile,
        stages=tuple(
            replace(stage, reissuable=False) if stage.name in stages else stage for stage in profile.stages
        ),
    )


def _useless(profile: Profile, study: PlanStudy, seed: int) -> set[str]:
    """Stages with copies without which the requests are as fast."""
    choices = choices_of(study.curves, study.allocation)
    if not choices:
        return set()
    paired = PairedSimulation(profile, study.curves, compared_rows(profile), seed=seed)
    least = MIN_EFFECT * _tail(paired.set_choices({}))
    whole = _tail(paired.set_choices(choices))
    losing = {
        name: float(((_tail(paired.with_choices({name: NONE})) - whole) / least).max()) for name in choices
    }
    # Several stages may cut the same requests, so that none of them seems to matter. So each one is tried
    # without those that were left out before.
    useless: dict[str, tuple[float, float]] = {}
    for name in sorted(losing, key=lambda each: (losing[each], each)):
        if losing[name] >= 1:
            break
        if ((_tail(paired.with_choices({**useless, name: NONE})) - whole) / least).max() < 1:
            useless[name] = NONE
    return set(useless)


def _tail(latency_ms: Floats) -> Floats:
    """p99, and the mean beyond p95, milliseconds."""
    p95, p99 = percentiles_of(latency_ms, (95, 99))
    return np.array([p99, latency_ms[latency_ms >= p95].mean()])
