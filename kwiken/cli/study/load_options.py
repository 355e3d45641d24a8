"""Options of the verbs that model queues, and the load model that the options describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwiken.cli.shared import POSITIVE, Real, given, note
from kwiken.errors import InputError

if TYPE_CHECKING:
    from kwiken.planning import PlanStudy
    from kwiken.profile import Profile
    from kwiken.queueing.load import LoadModel, PlanUnderLoad

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
    help="Number of replicas of a stage, if the profile does not say.",
)
UTILISATION: Final = click.option(
    "--utilisation",
    callback=_by_stage(_share, "from 0 to below 1"),
    multiple=True,
    metavar="STAGE=SHARE",
    help="Share of its replicas' time that was used, if no busy times were measured.",
)
RATE: Final = click.option(
    "--rate",
    type=POSITIVE,
    help="Requests a second at recording, if the profile is a sample.",
)
DISPATCH: Final = click.option(
    "--dispatch",
    type=click.Choice(DISPATCHES),
    default=DISPATCHES[0],
    show_default=True,
    help="Choice of replicas for calls; aged: much like the runtime's.",
)
CANCEL: Final = click.option(
    "--cancel",
    type=click.Choice(CANCELS),
    default=CANCELS[0],
    show_default=True,
    help="Losing copies to cancel: those still queued, running ones too, or none.",
)


def queue_options(command: F) -> F:
    """Add the options that describe replicas and queues to a command."""
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
    from kwiken.queueing.load import load_model

    return load_model(
        profile,
        replicas=replicas,
        utilisation=utilisation,
        rate_per_s=rate,
        seed=seed,
        **rules,
    )


def settled(
    profile: Profile,
    study_of: Callable[[Profile], PlanStudy],
    *,
    load: float | None,
    guarded: bool,
    seed: int,
    **queues: Any,
) -> tuple[PlanStudy, PlanUnderLoad | None]:
    """Make a plan that accounts for the load of its own copies, if some stage is busy enough.

    Args:
        profile: profile to plan for.
        study_of: function that makes a plan for a profile.
        load: load to plan for, as a factor on the profile's; None for the profile's own.
        guarded: whether to account for load if `load` is None.
        seed: seed of all random numbers.
        queues: values of `queue_options`.

    Returns:
        The study, and the fixed point of plan and load; None for the latter if `load` is None and no stage is
        known to be busy enough to matter.

    Raises:
        InputError: for options that contradict one another, a stage that the profile lacks, or as `model_of`.
    """
    from kwiken.queueing.load import QUIET, measured_utilisation, plan_under_load

    _check_options(profile, load, queues, guarded=guarded)
    if load is None:
        known = measured_utilisation(profile, replicas=queues["replicas"], rate_per_s=queues["rate"])
        busiest = max((*known.values(), *queues["utilisation"].values()), default=0.0)
        if not guarded or busiest < QUIET:
            if (idle := given("dispatch", "cancel")) is not None:
                note(
                    f"{idle} has no effect here: replicas are nearly idle, so load is left out without --load"
                )
            return study_of(profile), None
    try:
        model = model_of(profile, seed=seed, **queues)
    except InputError as error:
        if load is not None or error.where is not None:
            raise
        raise InputError(f"{error}; or leave load out with --no-guard") from error
    found = plan_under_load(model, study_of, load=load or 1.0, seed=seed)
    return found.study, found


def _check_options(profile: Profile, load: float | None, queues: Mapping[str, Any], *, guarded: bool) -> None:
    """Refuse options that would have no effect, and stages that the profile lacks."""
    if not guarded:
        if load is not None:
            raise InputError("does not go with --load, which counts with the load", where="--no-guard")
        if (told := given(*queues)) is not None:
            raise InputError("does not go with --no-guard, which leaves load out", where=told)
    names = [stage.name for stage in profile.stages]
    for option in ("replicas", "utilisation"):
        for name in queues[option]:
            if name not in names:
                raise InputError(
                    f"stage {name!r} is not in the profile; it has: {', '.join(names)}", where=f"--{option}"
                )


def load_summary(settlement: PlanUnderLoad | None) -> dict[str, Any]:
    """Summary of load for a plan's JSON; empty if load was left out."""
    if settlement is None:
        return {}
    return {
        "load": {
            "factor": settlement.simulation.factor,
            "rate_per_s": settlement.simulation.rate_per_s,
            "rounds": settlement.rounds,
            "settled": settlement.settled,
            "refused": settlement.refused,
            "guards": {
                name: {"utilisation": found.utilisation, "reissue_hurts_above": found.above}
                for name, found in settlement.guards.items()
            },
            "unsearched": settlement.unsearched,
        }
    }
