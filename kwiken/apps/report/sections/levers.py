"""Section on a plan's other levers: partial answers and catch-up."""

from __future__ import annotations

from kwiken.apps.report.model.number_format import ms, percent
from kwiken.apps.report.model.page import Row, Section, Table
from kwiken.apps.report.sections.views import Material
from kwiken.model.plan.plan import Plan

NEVER = "\N{EN DASH}"


def other_levers(material: Material) -> Section | None:
    """Build the section with stop rules and catch-up; None if the plan has neither."""
    if material.plan is None:
        return None
    tables = [table for table in (_partial(material.plan), _late(material.plan)) if table is not None]
    if not tables:
        return None
    words = (
        "A fan-out with a stop rule answers without its slowest shards. A request is late from a certain age "
        "on, whatever made it slow. From then on its calls get help before they are slow themselves."
    )
    rows = tuple(Row((table,)) for table in tables)
    return Section(id="levers", title="Partial answers and catch-up", words=(words,), rows=rows)


def _partial(plan: Plan) -> Table | None:
    body = tuple(
        (
            name,
            ms(stage.partial.cutoff_ms),
            f"{percent(stage.partial.progress)} and {ms(stage.partial.wait_ms)} more"
            if stage.partial.wait_ms is not None
            else NEVER,
            percent(stage.partial.loss),
        )
        for name, stage in plan.stages.items()
        if stage.partial is not None
    )
    head = ("fan-out", "stops at age", "or after this share of answers", "utility lost")
    caption = "Stop rules. Utility is lost as a share of the fan-out's own."
    return Table(head=head, body=body, caption=caption) if body else None


def _late(plan: Plan) -> Table | None:
    body = tuple(
        (
            name,
            ms(stage.catch_up.after_ms),
            "at once" if stage.catch_up.reissue else NEVER,
            str(stage.catch_up.threads),
            "yes" if stage.catch_up.priority else NEVER,
        )
        for name, stage in plan.stages.items()
        if stage.catch_up is not None
    )
    head = ("stage", "request is late from age", "copies", "threads", "priority")
    caption = "Catch-up: what a stage does for late requests."
    return Table(head=head, body=body, caption=caption) if body else None
