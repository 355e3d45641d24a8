"""Options and output of `plan` for partial answers and catch-up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwiken.apps.console.output import note, print_table
from kwiken.cli.shared.options import SHARE

if TYPE_CHECKING:
    from kwiken.tail.partial.stop_rules import StopRule
    from kwiken.tail.planning.study import PlanStudy

F = TypeVar("F", bound=Callable[..., Any])
MAX_WEIGHT: Final = 1e12
LOST: Final = ("utility lost, of its own", "of the whole answer")


def _weights(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, float] | None:
    """Click callback: parse a repeated option `STAGE=WEIGHT`; a stage's name may contain `=`."""
    found: dict[str, float] = {}
    for text in given:
        stage, _, digits = text.rpartition("=")
        try:
            weight = float(digits)
        except ValueError:
            weight = math.nan
        if not stage or not 0 < weight <= MAX_WEIGHT:
            raise click.BadParameter(
                f"{text!r} must be STAGE=WEIGHT, the weight above 0 and at most {MAX_WEIGHT:g}", ctx, param
            )
        if stage in found:
            raise click.BadParameter(f"stage {stage!r} is given twice", ctx, param)
        found[stage] = weight
    return found or None


def _stages(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...] | None:
    del ctx, param
    return given or None


UTILITY_LOSS: Final = click.option(
    "--utility-loss",
    type=SHARE,
    default=0.0,
    show_default=True,
    help="Budget of utility that answers may lose, as a share: fan-outs may go on without their last shards.",
)
CATCH_UP: Final = click.option(
    "--catch-up",
    type=SHARE,
    default=0.0,
    show_default=True,
    help="Budget for help to requests that are late already, as a share of all work.",
)
PARTIAL: Final = click.option(
    "--partial",
    callback=_stages,
    multiple=True,
    metavar="STAGE",
    help="A fan-out that may answer in part; repeatable.  [default: every fan-out]",
)
WEIGHT: Final = click.option(
    "--utility-weight",
    "utility_weights",
    callback=_weights,
    multiple=True,
    metavar="STAGE=WEIGHT",
    help="Weight of a stage in the utility of the whole answer, where each part of the answer counts on its "
    "own; repeatable.  [default: an answer needs all parts]",
)


def lever_options(command: F) -> F:
    """Add the options for partial answers and catch-up to a command."""
    for option in (WEIGHT, PARTIAL, CATCH_UP, UTILITY_LOSS):
        command = option(command)
    return command


def lever_summary(study: PlanStudy) -> dict[str, Any]:
    """Use of the budgets for partial answers and catch-up, as JSON; shares are fractions."""
    return {
        "partial": {
            "apportioned": study.partial.apportioned,
            "stages": {
                name: {
                    "loss": [float(loss) for loss in curve.fraction],
                    "variance_ms2": [float(variance) for variance in curve.variance],
                    "rules": [_rule(rule) for rule in curve.rules],
                }
                for name, curve in study.partial.curves.items()
            },
        },
        "catch_up": {
            "after_ms": study.late.after_ms,
            "late": study.late.late,
            "held_out_p99_cut": study.late.cut,
        },
    }


def _rule(rule: StopRule | None) -> dict[str, float | None] | None:
    """Stop rule as JSON; infinity becomes null, because JSON has none."""
    if rule is None:
        return None
    found = {"cutoff_ms": rule.cutoff_ms, "wait_ms": rule.wait_ms, "progress": rule.progress}
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def show_levers(study: PlanStudy, *, to_stderr: bool) -> None:
    """Print partial answers and catch-up as tables; nothing if the plan only has reissues."""
    plan = study.plan
    rows = [
        (
            name,
            _ms(stage.partial.cutoff_ms),
            f"{stage.partial.progress:.1%}",
            _ms(stage.partial.wait_ms),
            f"{study.simulation.stage_loss.get(name, 0.0):.3%}",
            f"{stage.partial.weight * study.simulation.stage_loss.get(name, 0.0):.3%}",
        )
        for name, stage in plan.stages.items()
        if stage.partial is not None
    ]
    if rows:
        columns = ("fan-out", "stops at ms", "or once so many came", "and ms went by", *LOST)
        print_table("Partial answers", columns, rows, to_stderr=to_stderr, apart=True)
    if plan.expected is not None and plan.budgets.utility_loss:
        lost, limit = plan.expected.spent.utility_loss, plan.budgets.utility_loss
        note(f"utility lost, of the whole answer: {lost:.3%} expected, {limit:.3%} allowed")
    _show_late(study, to_stderr=to_stderr)


def _show_late(study: PlanStudy, *, to_stderr: bool) -> None:
    plan = study.plan
    rows = [
        (
            name,
            "at once" if stage.catch_up.reissue else "-",
            str(stage.catch_up.threads),
            "yes" if stage.catch_up.priority else "-",
            f"{study.simulation.stage_late.get(name, 0.0):.2%}",
        )
        for name, stage in plan.stages.items()
        if stage.catch_up is not None
    ]
    if rows:
        print_table(
            f"Help for requests older than {study.late.after_ms:.1f} ms",
            ("stage", "copies", "threads", "priority", "spent"),
            rows,
            to_stderr=to_stderr,
            apart=True,
        )
    if plan.expected is not None and plan.budgets.catch_up:
        spent = plan.expected.spent.catch_up
        note(f"help for late requests: {spent:.2%} of cost expected, {plan.budgets.catch_up:.2%} allowed")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
