"""What verbs share that know of queues: options, and the model of a profile that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli._options import POSITIVE

if TYPE_CHECKING:
    from kwiken import Profile
    from kwiken.queueing import LoadModel

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", int, float)
MAX_REPLICAS: Final = 10_000
DISPATCHES: Final = ("aged", "two", "least", "random")
CANCELS: Final = ("queued", "running", "none")


def _by_stage(
    number_of: Callable[[str], N], rule: str
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, N]]:
    """Reads `STAGE=NUMBER`, given as often as there are stages; a name may itself hold an equals sign."""

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
    help="How many replicas a stage has, where the profile does not know.",
)
UTILISATION: Final = click.option(
    "--utilisation",
    callback=_by_stage(_share, "from 0 to below 1"),
    multiple=True,
    metavar="STAGE=SHARE",
    help="Share of its replicas' time that was used, where no busy times were measured.",
)
RATE: Final = click.option(
    "--rate", type=POSITIVE, help="Requests a second behind the profile, where it holds a sample."
)
DISPATCH: Final = click.option(
    "--dispatch",
    type=click.Choice(DISPATCHES),
    default=DISPATCHES[0],
    show_default=True,
    help="How calls find replicas; aged: about as the runtime does.",
)
CANCEL: Final = click.option(
    "--cancel",
    type=click.Choice(CANCELS),
    default=CANCELS[0],
    show_default=True,
    help="Which losers of a race are taken out: those not begun, running ones too, or none.",
)


def queue_options(command: F) -> F:
    """The options that say what queues are like."""
    for option in (CANCEL, DISPATCH, RATE, UTILISATION, REPLICAS):
        command = option(command)
    return command


def model_of(
    profile: Profile,
    *,
    replicas: Mapping[str, int],
    utilisation: Mapping[str, float],
    rate: float | None,
    seed: int,
    **rules: Any,
) -> LoadModel:
    """The profile, taken apart, with what the options say.

    Raises:
        InputError: where load acts on no stage, or would overload one.
    """
    from kwiken.queueing import load_model

    return load_model(
        profile,
        replicas=replicas,
        utilisation=utilisation,
        rate_per_s=rate,
        seed=seed,
        **rules,
    )
