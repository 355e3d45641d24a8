"""Section on spend: planned beside actual, in the budget's unit and in every other."""

from __future__ import annotations

from collections.abc import Mapping

from kwiken.apps.report.charts.worth import draw_by_spend
from kwiken.apps.report.model.number_format import percent
from kwiken.apps.report.model.page import Figure, Row, Section, Table
from kwiken.apps.report.model.result import DemoResult
from kwiken.apps.report.sections.views import Material
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.cost_models import spent_by_model

COUNTED = {"calls": "calls", "typical": "typical work", "mean": "mean work"}
NONE = "\N{EN DASH}"
BEND = 0.9  # of the largest cut, which is mostly bought by a small part of a budget
MAX_NAMED = 4


def spending(material: Material) -> Section | None:
    """Build the section with planned and actual spend; without a demo's result only the former."""
    if material.result is not None:
        return _spent(material, material.result)
    return _planned(material, material.plan) if material.plan is not None else None


def _spent(material: Material, result: DemoResult) -> Section:
    limit = result.budgets.get("reissue", 0.0)
    arms = (result.spent, result.spent_even, result.spent_p95)
    stages = ({s.name: s.used for s in result.stages}, {s.name: s.even_used for s in result.stages})
    rows = (
        ("budget", percent(limit), percent(limit), NONE),
        ("expected", percent(result.expectation.spent), NONE, NONE),
        ("spent", *(percent(arm.reissue) for arm in arms)),
        *((("peak", percent(result.peak), percent(result.peak), NONE),) if result.peak is not None else ()),
        ("worst 10 s", *(percent(arm.reissue_worst_10s) for arm in arms)),
        *((f"spent, as a share of {unit}", *told, NONE) for unit, told in _counted(material, *stages)),
        ("primary calls", *(f"{arm.calls:,}" for arm in arms)),
        ("copies", *(f"{arm.copies:,}" for arm in arms)),
        ("retries", *(f"{arm.retries:,}" for arm in arms)),
    )
    words = (
        "The cost of copies as a share of the cost of primary calls, counted from the traces. The budget "
        "holds over the horizon of the plan's ledger, the peak over any 10 s. The worst 10 s is the highest "
        "share over any 10 s of an arm, the time after a switch of plans included."
    )
    table = Table(head=("", "with the plan", "spread evenly", "a copy at p95"), body=rows, strong=("spent",))
    told = () if material.plan is None else spend_sentences(material.plan)
    drawn = () if material.plan is None else _by_spend(material.plan)
    return Section(id="spend", title="Extra work", words=(words, *told), rows=(Row((table, *drawn)),))


def spend_sentences(plan: Plan) -> tuple[str, ...]:
    """Sentences on what of a plan's spend is needed, what is insurance, and what the rest would buy."""
    expected = plan.expected
    if expected is None or len(expected.by_spend) < 2:  # noqa: PLR2004 - no copies, and something to compare
        return ()
    (_, before_ms), (most, best_ms) = expected.by_spend[0], expected.by_spend[-1]
    premium = _premium(plan)
    own = max(0.0, expected.spent.reissue - premium)
    told = [f"{percent(own)} of all work is spent where copies are expected to cut p99."]
    if expected.insured:
        several = len(expected.insured) > MAX_NAMED
        names = f"{len(expected.insured)} stages" if several else ", ".join(expected.insured)
        told.append(f"{percent(premium)} is insurance: {names} cut nothing today, and may stall tomorrow.")
    bend = next(
        spent for spent, p99_ms in expected.by_spend if before_ms - p99_ms >= BEND * (before_ms - best_ms)
    )
    told.append(
        f"{percent(bend)} buys {BEND:.0%} of the cut that the budget can buy, {percent(most)} all of it."
    )
    return tuple(told)


def _premium(plan: Plan) -> float:
    """Spend expected on stages that only get insurance, as a share of all work."""
    assert plan.expected is not None  # the caller has looked
    policies = {name: plan.stages[name].reissue for name in plan.expected.insured if name in plan.stages}
    return sum(plan.cost.stages[name] * each.fraction for name, each in policies.items() if each is not None)


def _by_spend(plan: Plan) -> tuple[Figure, ...]:
    """Chart of the p99 expected by spend; none where nothing is known of other spends."""
    expected = plan.expected
    if expected is None or len(expected.by_spend) < 2:  # noqa: PLR2004 - likewise
        return ()
    chosen = (expected.spent.reissue, expected.after.p99_ms)
    caption = (
        "p99 expected of each spend without insurance; the plan has its insurance, and its correction if any."
    )
    return (Figure(svg=draw_by_spend(expected.by_spend, chosen), caption=caption),)


def _planned(material: Material, plan: Plan) -> Section:
    expected = plan.expected.spent if plan.expected is not None else None
    names = (("reissues", "reissue"), ("lost utility", "utility_loss"), ("catch-up", "catch_up"))
    rows = [
        (
            label,
            percent(getattr(plan.budgets, key)),
            NONE if expected is None else percent(getattr(expected, key)),
        )
        for label, key in names
        if key == "reissue" or getattr(plan.budgets, key) > 0
    ]
    planned = {
        name: plan.cost.stages[name] * stage.reissue.fraction
        for name, stage in plan.stages.items()
        if stage.reissue is not None
    }
    rows += [(f"reissues, as a share of {unit}", NONE, told) for unit, (told,) in _counted(material, planned)]
    terms = plan.ledger
    peak = percent(terms.peak(plan.budgets.reissue))
    words = (
        f"Shares of the service's work by the cost model {plan.cost.model!r}; other units are named.",
        f"The budgets hold over {terms.horizon_s:,g} s. Over any 10 s reissues may reach {peak}.",
        f"Below {terms.floor_per_s:g} copies a second none is denied.",
    )
    table = Table(head=("budget", "may spend", "expected to spend"), body=tuple(rows))
    told, drawn = spend_sentences(plan), _by_spend(plan)
    return Section(
        id="spend", title="Planned extra work", words=(*words, *told), rows=(Row((table, *drawn)),)
    )


def _counted(material: Material, *spent: Mapping[str, float]) -> list[tuple[str, tuple[str, ...]]]:
    """Spend of each arm by unit; empty without profile and costs."""
    if material.profile is None or material.plan is None:
        return []
    found = [spent_by_model(material.profile, material.plan.cost, each) for each in spent]
    return [(unit, tuple(percent(each[model]) for each in found)) for model, unit in COUNTED.items()]
