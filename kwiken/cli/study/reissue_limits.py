"""Table of the utilisation from which copies hurt, for busy stages that `kwiken plan` considered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.cli.shared import note, print_table

if TYPE_CHECKING:
    from kwiken.queueing.load import PlanUnderLoad


def show_thresholds(settlement: PlanUnderLoad | None) -> None:
    """Print a row per busy stage on stderr, also without a search; nothing if load was left out."""
    if settlement is None:
        return
    names = (*settlement.guards, *settlement.unsearched)
    if names:
        columns = ("stage", "busy", "copies", "hurt from")
        note("")
        print_table("Copies and load", columns, [_row(name, settlement) for name in names])


def hurt_from(above: float | None) -> str:
    """Text of the utilisation from which a stage's copies hurt."""
    return "never seen" if above is None else f"{above:.0%} busy"


def _row(name: str, settlement: PlanUnderLoad) -> tuple[str, str, str, str]:
    simulation, found = settlement.simulation, settlement.guards.get(name)
    busy = simulation.model.stages[name].busy_at(simulation.factor)
    above = "not searched" if found is None else hurt_from(found.above)  # one of the plan's notes says why
    return name, f"{busy:.0%}", "refused" if name in settlement.refused else "sent", above
