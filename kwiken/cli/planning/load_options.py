"""Options for the load of a service, and the table of how busy its stages are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwiken.apps.console.output import note, print_table, read_text
from kwiken.base.errors import InputError
from kwiken.cli.shared.document_sizes import MAX_QUEUES_FILE
from kwiken.cli.shared.options import Real

if TYPE_CHECKING:
    from kwiken.tail.planning.study import LoadStudy
    from kwiken.tail.queueing.load.decompose import QueueSettings

F = TypeVar("F", bound=Callable[..., Any])
LOAD: Final = Real(1e-3, 1e3)  # factor on the profile's load; beyond, its measurements say nothing


def queues_option(command: F) -> F:
    """Add the option `--queues FILE`: what is known of replicas and queues beside the profile."""
    return click.option(
        "--queues",
        metavar="FILE",
        help="TOML file with what the profile does not say: replicas and utilisation by "
        "stage, rate_per_s of the recording, dispatch, cancel.",
    )(command)


def read_queues(path: str | None) -> QueueSettings:
    """What a file says of replicas and queues; without a file, nothing beside the profile.

    Raises:
        InputError: names the file, and what in it is wrong.
    """
    text = "" if path is None else read_text(path, MAX_QUEUES_FILE)
    from kwiken.tail.queueing.load.decompose import QueueSettings
    from kwiken.tail.queueing.load.queues_document import queues_from_toml

    return QueueSettings() if path is None else queues_from_toml(text, where=path)


def refuse_unguarded(load: float | None, queues: str | None) -> None:
    """Refuse options about load beside --no-guard, which leaves load out.

    Args:
        load: value of --load.
        queues: path of the file that --queues names; None without the option.
    """
    if load is not None:
        raise InputError("does not go with --load, which counts with the load", where="--no-guard")
    if queues is not None:
        raise InputError("does not go with --no-guard, which leaves load out", where="--queues")


def note_idle_queues(study: LoadStudy | None, queues: QueueSettings) -> None:
    """Note settings of queues that have no effect, because the plan does not account for load."""
    usual = type(queues)()
    if study is None and (queues.dispatch, queues.cancel) != (usual.dispatch, usual.cancel):
        note(
            "dispatch and cancel of --queues have no effect here: replicas are nearly idle, so load is left "
            "out without --load"
        )


def load_summary(study: LoadStudy | None) -> dict[str, Any]:
    """Summary of load for a plan's JSON; empty if load was left out."""
    if study is None:
        return {}
    return {
        "load": {
            "factor": study.simulation.factor,
            "rate_per_s": study.simulation.rate_per_s,
            "rounds": study.rounds,
            "settled": study.settled,
            "refused": study.refused,
            "guards": {
                name: {"utilisation": found.utilisation, "reissue_hurts_above": found.above}
                for name, found in study.guards.items()
            },
            "unsearched": study.unsearched,
        }
    }


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
