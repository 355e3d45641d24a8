"""Options of the verbs that model queues, and what they say of replicas and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwiken.apps.console import note
from kwiken.base.errors import InputError
from kwiken.cli.shared import POSITIVE, Real, given

if TYPE_CHECKING:
    from kwiken.tail.planning import LoadStudy
    from kwiken.tail.queueing.load import QueueSettings
    from kwiken.tail.queueing.simulator import Cancel, Dispatch

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", int, float)
MAX_REPLICAS: Final = 10_000
LOAD: Final = Real(1e-3, 1e3)  # factor on the profile's load; beyond, its measurements say nothing
DISPATCHES: Final = ("aged", "two", "least", "random")
CANCELS: Final = ("queued", "running", "none")


def _by_stage(
    number_of: Callable[[str], N], rule: str
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, N]]:
    """Build a click callback for a repeated option `STAGE=NUMBER`; a stage's name may contain `=`."""

    def read(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, N]:
        found: dict[str, N] = {}
        for text in given:
            stage, _, digits = text.rpartition("=")
            try:
                number = number_of(digits)
            except ValueError:
                number = None
            if not stage or number is None:
                raise click.BadParameter(f"{text!r} must be STAGE=NUMBER, the number {rule}", ctx, param)
            if stage in found:
                raise click.BadParameter(f"stage {stage!r} is given twice", ctx, param)
            found[stage] = number
        return found

    return read


def _replicas(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_REPLICAS:
        raise ValueError
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise ValueError
    return number


REPLICAS: Final = click.option(
    "--replicas",
    callback=_by_stage(_replicas, f"whole, from 1 to {MAX_REPLICAS}"),
    multiple=True,
    metavar="STAGE=N",
    help="Number of replicas of a stage, where the profile does not say, or to try another number; "
    "repeatable.",
)
UTILISATION: Final = click.option(
    "--utilisation",
    callback=_by_stage(_share, "from 0 to below 1"),
    multiple=True,
    metavar="STAGE=SHARE",
    help="Share of the time that a stage's replicas were busy, where that was not measured; repeatable.",
)
RATE: Final = click.option(
    "--rate",
    type=POSITIVE,
    help="Requests a second while the traces were taken, where the profile is a sample of them.",
)
DISPATCH: Final = click.option(
    "--dispatch",
    type=click.Choice(DISPATCHES),
    default=DISPATCHES[0],
    show_default=True,
    help="How a call finds its replica: much as in the runtime (aged), the less loaded of two (two), the "
    "least loaded of all (least), or any (random).",
)
CANCEL: Final = click.option(
    "--cancel",
    type=click.Choice(CANCELS),
    default=CANCELS[0],
    show_default=True,
    help="Which attempts are cancelled once another one has answered: those still in a queue (queued), "
    "running ones too (running), or none.",
)


def queue_options(command: F) -> F:
    """Add the options that describe replicas and queues to a command."""
    for option in (CANCEL, DISPATCH, RATE, UTILISATION, REPLICAS):
        command = option(command)
    return command


def queue_settings(
    *,
    replicas: Mapping[str, int],
    utilisation: Mapping[str, float],
    rate: float | None,
    dispatch: Dispatch,
    cancel: Cancel,
) -> QueueSettings:
    """What the values of `queue_options` say of replicas and queues."""
    from kwiken.tail.queueing.load import QueueSettings

    return QueueSettings(
        replicas=replicas, utilisation=utilisation, rate_per_s=rate, dispatch=dispatch, cancel=cancel
    )


def refuse_unguarded(load: float | None, queues: Iterable[str]) -> None:
    """Refuse options about load beside --no-guard, which leaves load out.

    Args:
        load: value of --load.
        queues: names of the parameters of `queue_options`.
    """
    if load is not None:
        raise InputError("does not go with --load, which counts with the load", where="--no-guard")
    if (option := given(*queues)) is not None:
        raise InputError("does not go with --no-guard, which leaves load out", where=option)


def note_idle_options(study: LoadStudy | None) -> None:
    """Note options about queues that have no effect, because the plan does not account for load."""
    if study is None and (idle := given("dispatch", "cancel")) is not None:
        note(f"{idle} has no effect here: replicas are nearly idle, so load is left out without --load")


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
