"""Page of an advice: five answers, then the tables and the chart that they rest on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kwiken.apps.console.output import IF_USUAL
from kwiken.apps.report.advice_words import (
    MIN_PASSED,
    QUESTIONS,
    advice_sentences,
    beyond_budget,
    further_steps,
    headline,
    step_words,
)
from kwiken.apps.report.charts.judgement_chart import JUDGEMENT_LEGEND, draw_judgement
from kwiken.apps.report.charts.worth import draw_worth
from kwiken.apps.report.model.number_format import ms, percent
from kwiken.apps.report.model.page import Card, Figure, Page, Row, Section, Table
from kwiken.apps.report.page_of_judgement import spending_table
from kwiken.apps.report.sections.excess import excess_table

if TYPE_CHECKING:
    from kwiken.tail.advice.contents import Advice

WORTH_HEAD = ("budget", "p99", "p99 cut", "90% between", "spent", "copies of")
WORTH_LEGEND = (("before", "no copies"), ("after", "with the budget; the dashes are the 90% interval"))
MAX_STAGES = 3
SETTINGS_HEAD = (
    *("stage", "service", "route", "copy after", "of late calls", "calls copied", "extra work"),
    "replicas seen",
)


def advice_page(advice: Advice, *, made: str, plan_file: str | None) -> Page:
    """Build the page.

    Args:
        made: time of the page, for the line under the title.
        plan_file: file that the plan was written to; None if it was not kept.
    """
    told = advice_sentences(advice, plan_file)
    return Page(
        title=headline(advice),
        made=made,
        summary=tuple(f"{about}. {words}" for about, words in zip(QUESTIONS, told, strict=True)),
        cards=_cards(advice),
        sections=(
            _section("kinds", 0, _kinds(advice)),
            _section("services", 1, excess_table(advice.slow)),
            *_gain(advice),
            *((_section("settings", 3, settings_table(advice)),) if advice.settings else ()),
            Section(
                id="next",
                title=QUESTIONS[4],
                words=tuple(f"{step_words(step)}." for step in further_steps(advice)) or (told[4],),
            ),
        ),
    )


def _cards(advice: Advice) -> tuple[Card, ...]:
    cards = [Card("before", "p99 now", ms(advice.kind.p99_ms), f"p50 {ms(advice.kind.p50_ms)}")]
    slow = advice.slow[-1]
    if advice.first is not None:
        whose = f"the slowest {slow.share:.0%}" if slow.during_s is None else "that time"
        cards.append(
            Card("critical", advice.first.name, f"{advice.first.share:.0%}", f"of the excess of {whose}")
        )
    if advice.judgement is not None:
        arm = advice.judgement.arm("plan")
        cut = arm.cuts["p99_ms"]
        between = f"90% between {percent(cut.low)} and {percent(cut.high)}"
        between = f"{IF_USUAL if advice.unshown else between}, {percent(arm.spent)} spent"
        if arm.spent > MIN_PASSED * advice.budget:
            between += f": {beyond_budget(advice.judgement)}"
        # A card claims no more than the text.
        value = percent(cut.share) if advice.doubt is None else "not certain"
        cards.append(Card("after", "p99 cut on later requests", value, between))
    return tuple(cards)


def _section(name: str, question: int, table: Table) -> Section:
    return Section(id=name, title=QUESTIONS[question], rows=(Row((table,)),))


def _kinds(advice: Advice) -> Table:
    classes = advice.classes if len(advice.classes) > 1 else ()
    rows = (advice.kind, *classes, *advice.others)
    cells = tuple((each.name, f"{each.requests:,}", ms(each.p50_ms), ms(each.p99_ms)) for each in rows)
    return Table(head=("kind", "requests", "p50", "p99"), body=cells, strong=(advice.kind.name,))


def _gain(advice: Advice) -> tuple[Section, ...]:
    found = advice.judgement
    if found is None:
        return ()
    figure = Figure(svg=draw_judgement(found), legend=JUDGEMENT_LEGEND)
    start = datetime.fromtimestamp(found.stretches[0].start_s, UTC)
    words = (
        "Planned on the earlier half of the requests, judged on the later half, from "
        f"{start:%Y-%m-%d %H:%M} UTC on, with the ledger replayed in their order of time."
    )
    rows = [Row((figure,)), Row((spending_table(found),))]
    if advice.worth:
        picture = draw_worth(advice.worth, found.before.p99_ms, advice.knee, sure=not advice.unshown)
        rows = [
            Row((worth_table(advice),)),
            Row((Figure(svg=picture, legend=WORTH_LEGEND, tight=True),)),
            *rows,
        ]
    return (Section(id="gain", title=QUESTIONS[2], words=(words,), rows=tuple(rows)),)


def worth_table(advice: Advice) -> Table:
    """Table of what several budgets buy on the later half."""
    body = tuple(
        (
            f"{100 * each.budget:.3g}%",
            ms(each.p99_ms),
            percent(each.cut, places=0),
            "-" if advice.unshown else f"{percent(each.low, places=0)} to {percent(each.high, places=0)}",
            percent(each.spent),
            ", ".join(each.stages[:MAX_STAGES]) + (", ..." if len(each.stages) > MAX_STAGES else "")
            or "none",
        )
        for each in advice.worth
    )
    caption = "A plan of the earlier half for each budget, on the later half. "
    if advice.knee is None:
        caption += "No budget is certain to cut p99."
    else:
        largest = advice.knee == max(each.budget for each in advice.worth)
        beyond = "buys most" if largest else "buys nearly as much as any larger budget"
        caption += f"{100 * advice.knee:.3g}% {beyond}."
    strong = () if advice.knee is None else (f"{100 * advice.knee:.3g}%",)
    return Table(head=WORTH_HEAD, body=body, caption=caption, strong=strong)


def settings_table(advice: Advice) -> Table:
    """Table of the settings to change."""
    body = tuple(
        (
            each.stage,
            each.service,
            each.route,
            f"{each.after_ms:.4g} ms",
            percent(each.probability),
            percent(each.copies),
            percent(each.spent),
            "not known" if each.replicas is None else f"{each.replicas}",
        )
        for each in advice.settings
    )
    caption = (
        "Of the plan made from all requests. Extra work is a share of all work. "
        "A copy needs a second replica to go to: where none is known, make sure of one first."
    )
    return Table(head=SETTINGS_HEAD, body=body, caption=caption)
