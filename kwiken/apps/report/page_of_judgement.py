"""Page of a judgement: percentiles of each way to spend the budget, over all requests and over time."""

from __future__ import annotations

from kwiken.apps.console.output import IF_USUAL
from kwiken.apps.report.charts.judgement_chart import JUDGEMENT_LEGEND, draw_judgement
from kwiken.apps.report.model.number_format import ms, percent
from kwiken.apps.report.model.page import Card, Figure, Page, Row, Section, Table
from kwiken.tail.judging.judged_plans import EVEN, HINDSIGHT, PLAN
from kwiken.tail.judging.judgement_document import Arm, Judgement

NAMES = {PLAN: "the plan", EVEN: "spread evenly", HINDSIGHT: "in hindsight"}
MIN_PASSED = 1.05  # spend over budget from which the table says why the budget was passed
HEAD = (
    "budget",
    "copies",
    "p50 cut",
    "p90 cut",
    "p95 cut",
    "p99 cut",
    "90% between",
    "p99.9 cut",
    "spent",
    "denied",
)


def judgement_page(found: Judgement, *, made: str, by_blocks: bool) -> Page:
    """Build the page.

    Args:
        made: time of the page, for the line under the title.
        by_blocks: whether plans were made block by block.
    """
    plan, even, hindsight = (found.arm(way) for way in (PLAN, EVEN, HINDSIGHT))
    cut = plan.cuts["p99_ms"]
    how = (
        "Planned on all blocks before, judged on each next block."
        if by_blocks
        else "The plan was learned from these very requests, so its cut says little of later ones."
        if found.in_sample
        else "Planned before, judged on later requests."
    )
    sure = IF_USUAL if found.unshown else f"90% between {percent(cut.low)} and {percent(cut.high)}"
    told = (
        f"p99 {_moved(cut.share)} from {ms(found.before.p99_ms)} to {ms(plan.after.p99_ms)} "
        f"({sure}), for {percent(plan.spent)} extra work "
        f"of {percent(found.budget)} allowed."
    )
    ledger = (
        f"{how} The ledger was replayed in the requests' order of time; it denied {percent(plan.denied)} of "
        "the copies."
    )
    return Page(
        title=f"{found.service}: a plan judged on {found.requests:,} requests",
        made=made,
        summary=(told, ledger),
        cards=(
            _card("after", "the plan", plan),
            _card("even", "spread evenly", even),
            _card("expected", "in hindsight", hindsight),
        ),
        sections=(
            Section(
                id="time",
                title="Over time",
                rows=(Row((Figure(svg=draw_judgement(found), legend=JUDGEMENT_LEGEND),)),),
            ),
            Section(
                id="ways",
                title="Beside other ways to spend the budget",
                rows=(Row((spending_table(found),)),),
            ),
        ),
    )


def spending_table(found: Judgement) -> Table:
    """Table of the ways to spend the budget."""
    caption = ""
    if max(arm.spent for arm in found.arms) > MIN_PASSED * found.budget:
        caption = (
            f"More than the budget of {percent(found.budget)} is spent where requests are few: "
            f"the ledger always grants {found.ledger.floor_per_s:g} copies a second."
        )
    return Table(
        head=HEAD,
        body=tuple(_cells(arm, shown=not found.unshown or arm.correlation is not None) for arm in found.arms),
        caption=caption,
        strong=(NAMES[PLAN],),
    )


def _moved(share: float) -> str:
    return "fell" if share >= 0 else "rose"


def _card(key: str, label: str, arm: Arm) -> Card:
    value = f"{arm.cuts['p99_ms'].share:.0%}"
    return Card(key, f"p99 cut, {label}", value, f"{percent(arm.spent)} spent, {arm.denied:.0%} denied")


def _cells(arm: Arm, *, shown: bool) -> tuple[str, ...]:
    p50, p90, p95, p99, p999 = arm.cuts.values()
    linked = "as pairs show" if arm.correlation is None else f"correlated {arm.correlation:g}"
    return (
        NAMES[arm.way],
        linked,
        *(f"{cut.share:.1%}" for cut in (p50, p90, p95, p99)),
        f"{p99.low:.1%} to {p99.high:.1%}" if shown else "not known",
        f"{p999.share:.1%}",
        percent(arm.spent),
        f"{arm.denied:.0%}",
    )
