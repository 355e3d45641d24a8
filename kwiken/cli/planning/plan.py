"""`kwiken plan`: apportions budgets across the stages of a profile."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import (
    IF_USUAL,
    note,
    note_written,
    print_json,
    print_table,
    progress,
    read_text,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.base.printable import printable_json
from kwiken.cli.planning.load_options import (
    LOAD,
    load_summary,
    note_idle_queues,
    queues_option,
    read_queues,
    refuse_unguarded,
    show_thresholds,
)
from kwiken.cli.planning.plan_findings import (
    by_every_count,
    gain_between,
    learned_summary,
    show_classes,
    show_notes,
)
from kwiken.cli.planning.plan_levers import lever_options, lever_summary, show_levers
from kwiken.cli.shared.options import (
    OBJECTIVES,
    SHARE,
    copyable_option,
    json_option,
    load_plan,
    load_profile,
    needs_extra,
    once_option,
    out_option,
    refuse_shared_stdout,
    seed_option,
)

if TYPE_CHECKING:
    from kwiken.model.plan.plan import Expected, Ladder
    from kwiken.model.profile.profile import Profile
    from kwiken.tail.planning.cuts_of_p99 import P99Cut
    from kwiken.tail.planning.study import PlanStudy

MAX_COST_FILE: Final = 4 * MIB
MAX_COST: Final = 1e12
COST_MODELS: Final = ("typical", "busy", "calls", "mean")
SPREADS: Final = ("sumvar", "equal", "uniform")
MAX_SPENDS: Final = 7  # rows of the table of other spends


@click.command()
@click.argument("profile", metavar="PROFILE")
@out_option(what="plan")
@click.option(
    "--reissue",
    type=SHARE,
    default=0.05,
    show_default=True,
    help="Budget for copies of late calls, as a share of all work.",
)
@lever_options
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default="tail",
    show_default=True,
    help="What to lower. tail: variances and means of the stages, as far as they count for p99. variance: "
    "their variances alone.",
)
@click.option(
    "--cost",
    metavar="typical|busy|calls|mean|FILE",
    help="What a call costs: its CPU time (busy), the median (typical) or mean latency of its stage, the "
    "same everywhere (calls), or what a JSON file says, a number for each stage.  [default: busy where "
    "measured, else typical]",
)
@click.option(
    "--spread",
    type=click.Choice(SPREADS),
    default="sumvar",
    show_default=True,
    help="How the reissue budget is divided: by gain (sumvar); or, to compare with, the same budget (equal) "
    "or the same share of calls (uniform) for every stage.",
)
@click.option(
    "--insurance",
    type=SHARE,
    default=0.1,
    show_default=True,
    help="Share of the budget that gives every stage a few copies, as what has not stalled yet may stall.",
)
@click.option(
    "--within",
    type=SHARE,
    default=0.02,
    show_default=True,
    help="Share of the best cut of p99 that may be given up to spend less: a budget is a limit, not a goal.",
)
@click.option(
    "--load",
    type=LOAD,
    metavar="FACTOR",
    help="Load to plan for, as a multiple of the profile's.  [default: the profile's own]",
)
@click.option(
    "--guard/--no-guard",
    "guarded",
    default=True,
    show_default=True,
    help="Account for the load that copies add, and send none where they hurt, if replicas are busy enough "
    "for load to matter.",
)
@click.option(
    "--tried",
    type=(str, str),
    metavar="PLAN TRACES",
    help="A plan that has been in force, and the traces of that time, as `fit` takes them: the latencies "
    "expected are corrected by how far its requests were from what was expected of it.",
)
@once_option
@copyable_option
@queues_option
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    profile: str,
    out: str | None,
    reissue: float,
    utility_loss: float,
    catch_up: float,
    cost: str | None,
    as_json: bool,
    objective: str,
    spread: str,
    insurance: float,
    within: float,
    seed: int,
    partial: tuple[str, ...] | None,
    utility_weights: Mapping[str, float] | None,
    guarded: bool,
    load: float | None,
    tried: tuple[str, str] | None,
    once: tuple[str, ...],
    copyable: tuple[str, ...],
    queues: str | None,
) -> None:
    """Make a plan for the service of PROFILE: divide budgets over its stages.

    Shows which calls get copies, what the plan should cost, and what latency to expect. Without -o the plan
    is shown and not kept. With -o - stdout carries the plan, and its tables go to stderr.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    if not utility_loss and (partial or utility_weights):
        option = "--partial" if partial else "--utility-weight"
        raise InputError("means nothing without a budget of utility: --utility-loss", where=option)
    if not guarded:
        refuse_unguarded(load, queues)
    learned = load_profile(profile)
    from dataclasses import replace

    from msgspec import structs

    from kwiken.model.plan.plan import Budgets
    from kwiken.model.profile.cost_models import spent_by_model
    from kwiken.model.profile.idempotence import kept_copyable, kept_single
    from kwiken.tail.planning.planner import study_plan
    from kwiken.tail.planning.study import PlanSettings

    made_from = learned.digest
    (learned,) = kept_copyable(kept_single((learned,), once), copyable)
    settings = PlanSettings(
        budgets=Budgets(reissue=reissue, utility_loss=utility_loss, catch_up=catch_up),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        objective=objective,
        cost=_cost(cost),
        spread=spread,
        insurance=insurance,
        within=within,
        seed=seed,
        partial=partial,
        utility_weights=utility_weights,
        guarded=guarded,
        load=load,
        queues=read_queues(queues),
    )
    with progress("planning"):
        study = study_plan(learned, settings)
    # The plan names the profile in the file, which is the one that later verbs are given.
    study = replace(study, plan=structs.replace(study.plan, profile=made_from))
    if tried is not None:
        study = _corrected_by(study, learned, tried, seed=seed)
    note_idle_queues(study.load, settings.queues)
    by_model = spent_by_model(learned, study.plan.cost, study.simulation.stage_spent)
    if out is not None:
        write_text(out, printable_json(study.plan.to_json()) + "\n")
    if as_json:
        told = lever_summary(study) | load_summary(study.load) | learned_summary(study, learned)
        print_json(_summary(study) | {"spent_by_model": by_model} | told)
    else:
        from kwiken.tail.planning.cuts_of_p99 import p99_cuts

        document = out == "-"
        _show(study, p99_cuts(learned, study, seed=seed), to_stderr=document)
        show_thresholds(study.load, to_stderr=document)
        note(f"copies by every count: {by_every_count(by_model)}")
        show_classes(learned, study.plan, to_stderr=document)
        show_notes(study.notes)
        note_written(out)


def _corrected_by(study: PlanStudy, learned: Profile, tried: tuple[str, str], *, seed: int) -> PlanStudy:
    """The study, its expectation corrected by the traces of a time with another plan."""
    from kwiken.otel.trace.load import read_forest
    from kwiken.otel.trace.planned_requests import requests_with_plan
    from kwiken.tail.judging.tried_plan import corrected, correction_of

    path, traces = tried
    plan = load_plan(path)
    with progress("reading the traces of the tried plan"):
        seen = requests_with_plan(read_forest([traces]), plan.digest)
    correction = correction_of(learned, plan, seen.latency_ms, seen.weight, copies=seen.copies, seed=seed)
    return corrected(study, correction, recorded=learned.requests, seed=seed)


def _cost(given: str | None) -> str | Mapping[str, float] | None:
    """Name of a cost model, or the costs in a file; None if none is given."""
    if given is None or given in COST_MODELS:
        return given
    from pathlib import Path

    if not given or not Path(given).exists():
        models = ", ".join(COST_MODELS)
        raise InputError(f"must be one of {models}, or a file; there is no file {given!r}", where="--cost")
    from kwiken.base.parsing.strict_json import parse_json

    raw = parse_json(read_text(given, MAX_COST_FILE), where=given)
    if not isinstance(raw, dict):
        raise InputError("must hold a JSON object: stage names and their costs", where=given)
    for stage, value in raw.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MAX_COST:
            raise InputError(
                f"stage {stage!r}: a cost is a number above 0, at most {MAX_COST:g}, not {value!r}",
                where=given,
            )
    return raw


def _summary(study: PlanStudy) -> dict[str, Any]:
    """Summary of the plan and its reasons, as JSON; shares are fractions, times are in milliseconds."""
    from kwiken.apps.console.notes import note_summaries

    plan, allocation = study.plan, study.allocation
    stages = {}
    for name, stage in plan.stages.items():
        stages[name] = {
            "cost": plan.cost.stages.get(name, 0.0),
            "fraction": stage.reissue.fraction if stage.reissue is not None else 0.0,
            "after_ms": stage.reissue.after_ms if stage.reissue is not None else None,
            "partial": stage.partial,
            "loss": study.simulation.stage_loss.get(name, 0.0),
            "catch_up": stage.catch_up,
            "late_spent": study.simulation.stage_late.get(name, 0.0),
            "spent": study.simulation.stage_spent.get(name, 0.0),
            "gain_ms2": allocation.gains.get(name, 0.0) if stage.reissue is not None else 0.0,
            "gain_between_ms2": gain_between(study, name),
            "marginal_ms2": allocation.marginal.get(name, 0.0),
        }
    return {
        "service": plan.service,
        "profile": plan.profile,
        "budgets": plan.budgets,
        "apportioned": allocation.spent / plan.budgets.reissue if plan.budgets.reissue else 0.0,
        "cost_model": plan.cost.model,
        "stages": stages,
        "expected": plan.expected,
        "notes": note_summaries(study.notes),
    }


def _show(study: PlanStudy, cuts: Mapping[str, P99Cut], *, to_stderr: bool) -> None:
    """Print the plan as tables; cuts are of p99."""
    from kwiken.apps.console.notes import plan_doubts
    from kwiken.apps.report.sections.spend import spend_sentences
    from kwiken.tail.simulation.run_range import RUN_REQUESTS

    plan = study.plan
    for words in plan_doubts(plan):
        note(f"doubt: {words}")
    columns = ("stage", "cost", "reissued", "after ms", "spent", "p99 cut ms", "next 1%")
    title = f"Plan for {plan.service} (costs: {plan.cost.model})"
    if plan.expected is not None and plan.expected.unshown:
        title += f", with what is expected {IF_USUAL}"
    print_table(title, columns, _rows(study, cuts), to_stderr=to_stderr)
    if plan.expected is not None:
        before, after = plan.expected.before, plan.expected.after
        head, rows = ("ms", "before", "after", "change"), ladder_rows(before, after)
        print_table("Expected latency", head, rows, to_stderr=to_stderr, apart=True)
        spent = plan.expected.spent.reissue
        note("", f"extra requests: {spent:.2%} of cost expected, {plan.budgets.reissue:.2%} allowed")
        if plan.expected.run_ms is not None:
            low, high = plan.expected.run_ms
            note(f"a run of {RUN_REQUESTS} requests should show a p99 of {low:.2f} to {high:.2f} ms (90%)")
        for sentence in spend_sentences(plan):
            note(sentence)
        if len(plan.expected.by_spend) > 1:
            _show_by_spend(plan.expected, to_stderr=to_stderr)
    show_levers(study, to_stderr=to_stderr)


def _show_by_spend(expected: Expected, *, to_stderr: bool) -> None:
    """Print the p99 expected of some spends, evenly over the points of the curve."""
    points = expected.by_spend
    picked = sorted({round(i * (len(points) - 1) / (MAX_SPENDS - 1)) for i in range(MAX_SPENDS)})
    base_ms = points[0][1]
    rows = [
        (f"{points[i][0]:.2%}", f"{points[i][1]:.2f}", f"{points[i][1] / base_ms - 1:+.1%}") for i in picked
    ]
    title = "What other spends would buy, without insurance"
    print_table(title, ("spend", "p99 ms", "change"), rows, to_stderr=to_stderr, apart=True)


def _rows(study: PlanStudy, cuts: Mapping[str, P99Cut]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    insured = () if study.plan.expected is None else study.plan.expected.insured
    for name, facts in _summary(study)["stages"].items():
        given = facts["after_ms"] is not None
        rows.append(
            (
                name,
                f"{facts['cost']:.1%}",
                f"{facts['fraction']:.2%}" if given else "-",
                f"{facts['after_ms']:.2f}" if given else "-",
                f"{facts['spent']:.2%}" if given else "-",
                "insures"
                if name in insured
                else f"{round(cuts[name].cut_ms, 2) + 0.0:.2f}"
                if given and name in cuts
                else "-",
                f"{cuts[name].next_ms:.2f}" if name in cuts else "-",
            )
        )
    return rows


def ladder_rows(before: Ladder, after: Ladder) -> list[tuple[str, ...]]:
    """Rows of a table with one percentile each: latency before and after, and the change."""
    rows: list[tuple[str, ...]] = []
    for field in before.__struct_fields__:
        old, new = getattr(before, field), getattr(after, field)
        label = field.removesuffix("_ms").replace("p999", "p99.9")
        rows.append((label, f"{old:.2f}", f"{new:.2f}", f"{(new - old) / old:+.1%}" if old > 0 else "-"))
    return rows
