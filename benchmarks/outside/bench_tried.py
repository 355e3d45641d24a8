"""Benchmark of what was tried for time that does not stand still, on the recordings of `outside`.

By data set and budget: mean p99 cut and spend of other insurances, of a part of the budget kept back, and of
plans made on recent requests only. Hindsight and the even spread stand beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from benchmarks.harness import Row
from benchmarks.outside.outside_data import recordings
from benchmarks.outside.outside_judge import Case, judged, made
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of

BUDGETS = (0.01, 0.05)
TOO_SMALL_SETS = {"social network", "Train Ticket, within a day"}  # to tell the ways apart
MIN_RECENT = 50  # requests that a plan on recent requests has at least


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    chosen = (
        each for each in recordings(quick=quick, services=1) if not TOO_SMALL_SETS & each.data_sets.keys()
    )
    cases = judged(chosen, ways, budgets=BUDGETS)
    rows = []
    for name in dict.fromkeys(case.data_set for case in cases):
        for budget in BUDGETS:
            some = [case for case in cases if (case.data_set, case.budget) == (name, budget)]
            names = dict.fromkeys(arm.way for case in some for arm in case.judgement.arms)
            rows += [cut_row(f"{name}, {budget:.1%}: {way}", way, some) for way in names]
    return rows


def ways(earlier: Profile, budget: float) -> Mapping[str, Plan]:
    """Plans to judge beside the default, by name."""
    half = made(earlier, budget / 2)
    return {
        "no insurance": made(earlier, budget, insurance=0.0),
        "insurance 25%": made(earlier, budget, insurance=0.25),
        "half of the budget kept back": msgspec.structs.replace(half, budgets=Budgets(reissue=budget)),
        "planned on the last half": made(_recent(earlier, 0.5), budget),
        "planned on the last tenth": made(_recent(earlier, 0.1), budget),
    }


def _recent(profile: Profile, share: float) -> Profile:
    order = np.argsort(profile.started_s, kind="stable")
    return part_of(profile, order[-max(MIN_RECENT, int(share * len(order))) :])


def cut_row(name: str, way: str, cases: Sequence[Case]) -> Row:
    """Mean cut of p99 by one way to plan, with the share of the budget that it spent."""
    arms = [case.judgement.arm(way) for case in cases]
    cuts = [100 * arm.cuts["p99_ms"].share for arm in arms]
    spent = [arm.spent / case.budget for arm, case in zip(arms, cases, strict=True)]
    return Row(
        name=f"{name}, p99 cut, mean of {len(cases)}, {np.mean(spent):.0%} of the budget spent",
        ours=float(np.mean(cuts)),
        unit="%",
        spread=(min(cuts), max(cuts)),
    )
