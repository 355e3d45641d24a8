"""From where on copies hurt: what `kwiken plan` shows of the busy stages that have, or were refused, any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.cli.shared import note, print_table

if TYPE_CHECKING:
    from kwiken.queueing.load import PlanUnderLoad


def show_thresholds(settlement: PlanUnderLoad | None) -> None:
    """A row a stage, those without a search of their own too; nothing where load was not looked at."""
    if settlement is None:
        return
    names = (*settlement.guards, *settlement.unsearched)
    if names:
        columns = ("stage", "busy", "copies", "hurt from")
        note("")
        print_table("Copies and load", columns, [_row(name, settlement) for name in names])


def hurt_from(above: float | None) -> str:
    """How busy a stage must be for its copies to hurt, in words."""
    return "never seen" if above is None else f"{above:.0%} busy"


def _row(name: str, settlement: PlanUnderLoad) -> tuple[str, str, str, str]:
    simulation, found = settlement.simulation, settlement.guards.get(name)
    busy = simulation.model.stages[name].busy_at(simulation.factor)
    above = "not searched" if found is None else hurt_from(found.above)  # a note says why
    return name, f"{busy:.0%}", "refused" if name in settlement.refused else "sent", above
