"""Table "Copies and load" of `kwiken plan`: how busy a stage is, and from which utilisation copies hurt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.apps.console import print_table

if TYPE_CHECKING:
    from kwiken.tail.planning import LoadStudy


def show_thresholds(study: LoadStudy | None, *, to_stderr: bool) -> None:
    """Print a row for each busy stage, searched or not; print nothing if the plan ignores load."""
    if study is None:
        return
    names = (*study.guards, *study.unsearched)
    if names:
        columns = ("stage", "busy", "copies", "hurt from")
        rows = [_row(name, study) for name in names]
        print_table("Copies and load", columns, rows, to_stderr=to_stderr, apart=True)


def hurt_from(above: float | None) -> str:
    """Text of the utilisation from which a stage's copies hurt."""
    return "never seen" if above is None else f"{above:.0%} busy"


def _row(name: str, study: LoadStudy) -> tuple[str, str, str, str]:
    simulation, found = study.simulation, study.guards.get(name)
    busy = simulation.model.stages[name].busy_at(simulation.factor)
    above = "not searched" if found is None else hurt_from(found.above)  # one of the plan's notes says why
    return name, f"{busy:.0%}", "refused" if name in study.refused else "sent", above
