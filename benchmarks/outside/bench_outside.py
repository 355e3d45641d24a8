"""Benchmark of plans on later requests that do not stand still: `benchmarks.outside.outside_data` says which.

Prints a line for each recording and budget. Its rows hold the medians of each data set beside their targets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.harness import Row
from benchmarks.outside.outside_data import recordings
from benchmarks.outside.outside_judge import Case, judged
from kwiken.tail.judging.judged_plans import EVEN, HINDSIGHT, PLAN

MAX_BEHIND_EVEN = 1.0  # points of p99 cut, in the median of a data set
MIN_OF_HINDSIGHT = 90.0  # percent of hindsight's cut, in the median of the generator's services
MIN_USED = 80.0  # percent of the budget, wherever hindsight uses it
MIN_CUT_OF_HINDSIGHT = 0.005  # p99 cut below which a ratio to it says nothing
HEAD = (
    *("data set", "kind", "budget", "requests", "p99 cut: plan", "even", "hindsight"),
    *("of budget spent: plan", "even", "hindsight", "denied"),
)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    cases = judged(recordings(quick=quick))
    for line in (*lines(cases), "", *summary(cases), ""):
        print(line, flush=True)
    sets = dict.fromkeys(case.data_set for case in cases)
    return [row for name in sets for row in targets(name, [case for case in cases if case.data_set == name])]


def lines(cases: Sequence[Case]) -> list[str]:
    """A line of Markdown for each recording and budget."""
    found = [f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD)]
    for case in cases:
        arms = [case.judgement.arm(way) for way in (PLAN, EVEN, HINDSIGHT)]
        cells = (
            *(case.data_set, case.kind, f"{case.budget:.1%}", f"{case.judgement.requests}"),
            *(f"{arm.cuts['p99_ms'].share:.1%}" for arm in arms),
            *(f"{arm.spent / case.budget:.0%}" for arm in arms),
            f"{arms[0].denied:.0%}",
        )
        found.append(f"| {' | '.join(cells)} |")
    return found


def summary(cases: Sequence[Case]) -> list[str]:
    """A line of Markdown for each data set and budget, with means over its recordings."""
    head = ("data set", "budget", "recordings", *HEAD[4:])
    found = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for name, budget in dict.fromkeys((case.data_set, case.budget) for case in cases):
        some = [case for case in cases if (case.data_set, case.budget) == (name, budget)]
        ways = [[case.judgement.arm(way) for case in some] for way in (PLAN, EVEN, HINDSIGHT)]
        cells = (
            *(name, f"{budget:.1%}", f"{len(some)}"),
            *(f"{np.mean([arm.cuts['p99_ms'].share for arm in arms]):.0%}" for arms in ways),
            *(f"{np.mean([arm.spent for arm in arms]) / budget:.0%}" for arms in ways),
            f"{np.mean([arm.denied for arm in ways[0]]):.0%}",
        )
        found.append(f"| {' | '.join(cells)} |")
    return found


def targets(name: str, cases: Sequence[Case]) -> list[Row]:
    """Figures of one data set beside their targets: medians over recordings and budgets, and mean cuts."""
    generated = name.startswith("generator")
    ahead = [100 * (_cut(case, PLAN) - _cut(case, EVEN)) for case in cases]
    linked = [100 * (_cut(case, PLAN, 0.5) - _cut(case, EVEN, 0.5)) for case in cases]
    ratio = [
        100 * _cut(case, PLAN) / _cut(case, HINDSIGHT)
        for case in cases
        if _cut(case, HINDSIGHT) >= MIN_CUT_OF_HINDSIGHT
    ]
    used = [
        100 * case.judgement.arm(PLAN).spent / case.budget
        for case in cases
        if case.judgement.arm(HINDSIGHT).spent >= MIN_USED / 100 * case.budget
    ]
    rows = [
        _row(f"{name}: p99 cut of the plan ahead of even", ahead, "points", -MAX_BEHIND_EVEN),
        _row(f"{name}: the same, copies correlated at 0.5", linked, "points", -MAX_BEHIND_EVEN),
    ]
    if ratio:
        target = MIN_OF_HINDSIGHT if generated else None
        rows.append(_row(f"{name}: p99 cut as a share of hindsight's", ratio, "%", target))
    if used:
        rows.append(
            _row(f"{name}: budget used where hindsight uses it", used, "%", MIN_USED if generated else None)
        )
    for what, way in (("plan", PLAN), ("even", EVEN), ("hindsight", HINDSIGHT)):
        rows.append(
            _row(f"{name}: p99 cut, {what}", [100 * _cut(case, way) for case in cases], "%", mean=True)
        )
    return rows


def _cut(case: Case, way: str, correlation: float | None = None) -> float:
    return case.judgement.arm(way, correlation).cuts["p99_ms"].share


def _row(
    name: str, values: Sequence[float], unit: str, least: float | None = None, *, mean: bool = False
) -> Row:
    """A row with the median or the mean over recordings and budgets, and a figure to reach from below."""
    ours = float(np.mean(values) if mean else np.median(values))
    return Row(
        name=f"{name}, {'mean' if mean else 'median'} of {len(values)}",
        ours=ours,
        unit=unit,
        target=least,
        met=None if least is None else ours >= least,
        spread=(min(values), max(values)),
    )
