"""Section on a plan's other levers: partial answers and catch-up."""

from __future__ import annotations

from kwiken.cli.report.model import Row, Section, Table, ms, percent
from kwiken.cli.report.sections.views import Material
from kwiken.plan import Plan

NEVER = "\N{EN DASH}"


def other_levers(material: Material) -> Section | None:
    """Build the section with stop rules and catch-up; None if the plan has neither."""
    if material.plan is None:
        return None
    tables = [table for table in (_partial(material.plan), _late(material.plan)) if table is not None]
    if not tables:
        return None
    words = (
        "A fan-out that may answer in part goes on without its slowest shards. A request is late from one "
        "age on, whatever made it so; then its calls are helped before they are slow themselves."
    )
    rows = tuple(Row((table,)) for table in tables)
    return Section(id="levers", title="What else the plan does", words=(words,), rows=rows)


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
    head = ("answers in part", "goes on after", "or after so many answers", "may lose of its utility")
    return Table(head=head, body=body) if body else None


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
    head = ("help for late requests", "late from", "copies", "threads", "priority")
    return Table(head=head, body=body) if body else None
