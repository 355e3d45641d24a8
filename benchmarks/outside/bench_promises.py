"""Promises of `kwiken advise` beside what copies truly cut, in fresh worlds and in four cases from the field.

Each world is judged by its true cut: the greatest that a budget of 5% buys. Below 5%, no cut above 20% may be
promised, with a condition or without. At 20% or more, a cut must be promised without a condition, within 15
points of what the advised settings truly cut. Between them a world is printed and not judged. Where spans
name no replica, no promise may be without a condition. The right cause must be named, and budgets be in
order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.outside.promise_worlds import KINDS, SIBLINGS, Kind, World, world
from kwiken.otel.fit.fit import fit_profiles
from kwiken.tail.advice.composition import advise
from kwiken.tail.advice.contents import (
    Advice,
    Doubt,
    FindCommonCause,
    LookIntoReplica,
    LookIntoRequests,
    RequestKind,
)
from kwiken.tail.judging.judged_plans import PLAN

FIELD = Path(__file__).resolve().parents[3] / "shared" / "data" / "field"
CASES = ("G12_ms_clock_budget", "G14_big_tenants", "G16_one_pod_stalls", "G17_all_pods_stall_together")
NO_CUT, SOME_CUT, NEAR = 0.05, 0.2, 0.15  # of p99
MIN_QUIET, MIN_NEAR = 0.9, 0.8  # of the worlds of a kind
PERIOD_WITHIN = 0.1


@dataclass(frozen=True)
class Promise:
    """What was promised of one world.

    Attributes:
        told: cut of p99 that was promised; None for none.
        sure: whether it was promised without a condition.
        best: greatest true cut of a budget of 5%.
        true: true cut of the settings that were advised; 0 without settings.
        cause: cause that the steps name, with its name.
        named: whether that is the world's cause.
        ordered: whether no budget cuts less, or spends less, than a smaller one.
    """

    told: float | None
    sure: bool
    best: float
    true: float
    cause: str
    named: bool
    ordered: bool

    @property
    def quiet(self) -> bool:
        """Whether nothing much was promised."""
        return self.told is None or self.told <= SOME_CUT

    @property
    def near(self) -> bool:
        """Whether a cut was promised without a condition, and is nearly the true one."""
        return self.told is not None and self.sure and abs(self.told - self.true) <= NEAR


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    print(field_cases(), flush=True)
    rows: list[Row] = []
    every: list[Promise] = []
    for kind in KINDS:
        found = [promise(world(kind, sibling)) for sibling in range(2 if quick else SIBLINGS)]
        rows += _rows(kind, found)
        every += found
    return [
        *rows,
        _row("all kinds: worlds whose budgets are in order", [each.ordered for each in every], 1.0),
    ]


def promise(case: World) -> Promise:
    """Ask for advice about the traces of a world, and simulate its settings."""
    with tempfile.TemporaryDirectory() as folder:
        profile = fit_profiles([case.recorded(Path(folder))]).profiles[0]
    kind = RequestKind(name="page", requests=profile.requests, p50_ms=1.0, p99_ms=2.0)
    advice, plan = advise(profile, kind=kind)
    policies = {
        int(each.service.removeprefix("back")): (each.after_ms, each.probability) for each in advice.settings
    }
    told = None if plan is None or not policies else told_cut(advice)
    budget = 0.0 if plan is None else plan.budgets.reissue
    cause = cause_of(advice)
    found = Promise(
        told=told,
        sure=not advice.unshown,
        best=case.best_cut(),
        true=case.cut(policies, budget=budget) if policies else 0.0,
        cause=cause,
        named=_is_cause(case, cause),
        ordered=all(a.cut <= b.cut and a.spent <= b.spent for a, b in pairwise(advice.worth)),
    )
    promised = "nothing" if told is None else f"{told:.0%}{'' if found.sure else ' on a condition'}"
    where = ", at backend" if case.at_backend else ""
    print(
        f"{case.kind} {case.seed % 100} ({case.cause} {case.mode}, {case.rate_per_s:.0f}/s, "
        f"{case.backends[case.faulty].pods} replicas{where}): promised {promised}, "
        f"true {found.true:.0%} of at most {found.best:.0%}; cause: {cause or 'none'}; {advice.doubt or ''}",
        flush=True,
    )
    return found


def told_cut(advice: Advice) -> float | None:
    """Cut that an advice promises; None where it says that none can be told."""
    if advice.judgement is None or advice.doubt in set(Doubt):
        return None
    return advice.judgement.arm(PLAN).cuts["p99_ms"].share


def cause_of(advice: Advice) -> str:
    """Cause that is named first."""
    for step in advice.steps:
        match step:
            case LookIntoReplica(name=name):
                return f"replica {name}"
            case FindCommonCause(period_s=period_s):
                return f"together {period_s:.1f}"
            case LookIntoRequests(attribute=attribute):
                return f"requests {attribute}"
            case _:
                continue
    return ""


def _is_cause(case: World, cause: str) -> bool:
    """Whether a named cause is right. There are four kinds of worlds, by their cause."""
    what, _, name = cause.partition(" ")
    if case.cause == "one_pod":
        return what == "replica" and name == case.bad_pod
    if case.cause == "request":
        return what == "requests" and name == case.attribute
    if case.cause == "together" and case.instance:
        return what == "together" and abs(float(name) - case.period_s) <= PERIOD_WITHIN * case.period_s
    return not cause


def _rows(kind: Kind, found: Sequence[Promise]) -> list[Row]:
    if kind == "nameless":
        return [
            _row(
                "nameless: nothing promised without a condition",
                [not each.sure or each.told is None for each in found],
                1.0,
            )
        ]
    none = [each.quiet for each in found if each.best < NO_CUT]
    some = [each.near for each in found if each.best >= SOME_CUT]
    return [
        *([_row(f"{kind}: nothing promised where nothing is cut", none, MIN_QUIET)] if none else []),
        *([_row(f"{kind}: cut promised within 15 points", some, MIN_NEAR)] if some else []),
        _row(f"{kind}: right cause", [each.named for each in found], MIN_NEAR),
    ]


def _row(name: str, held: Sequence[bool], least: float) -> Row:
    share = sum(held) / len(held)
    return Row(
        name=f"{name}, of {len(held)}", ours=100 * share, unit="%", target=100 * least, met=share >= least
    )


def field_cases() -> str:
    """What is promised of the cases from the field, one a line; those that are missing are named."""
    lines = []
    for name in CASES:
        path = FIELD / f"{name}.json.gz"
        if not path.is_file():
            lines.append(f"{name}: not there")
            continue
        profile = fit_profiles([path]).profiles[0]
        kind = RequestKind(name="p", requests=profile.requests, p50_ms=1.0, p99_ms=2.0)
        advice, _ = advise(profile, kind=kind)
        told = told_cut(advice)
        promised = "nothing" if told is None else f"{told:.0%}{' on a condition' if advice.unshown else ''}"
        budgets = ", ".join(f"{each.budget:.0%}: {each.cut:.0%}" for each in advice.worth)
        lines.append(f"{name}: promised {promised}; cause: {cause_of(advice) or 'none'}; budgets {budgets}")
    return "\n".join(lines)
