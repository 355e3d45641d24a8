"""`kwiken simulate`: replays a profile's requests with a plan and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note, print_json, print_table, progress, say
from kwiken.base.errors import InputError
from kwiken.base.jobs import one_by_one
from kwiken.cli.planning.load_options import LOAD, queues_option
from kwiken.cli.planning.plan import ladder_rows
from kwiken.cli.planning.plan_findings import by_every_count, passed_budget
from kwiken.cli.planning.plan_levers import LOST
from kwiken.cli.planning.simulate_load import simulate_loaded
from kwiken.cli.shared.engines import engine_at, engine_options
from kwiken.cli.shared.options import (
    check_belongs,
    json_option,
    load_plan,
    load_profile,
    needs_extra,
    seed_option,
)
from kwiken.cli.shared.profile_findings import note_contradicted, note_few

if TYPE_CHECKING:
    from kwiken.model.plan.plan import Plan
    from kwiken.model.profile.profile import Profile
    from kwiken.tail.simulation.trace_driven import Simulation

MAX_REQUESTS = 10_000_000


@click.command()
@click.argument("profile", metavar="PROFILE")
@click.option(
    "--plan", "plan_file", metavar="FILE", help="Plan to try.  [default: none, so latencies stay as they are]"
)
@click.option(
    "--requests",
    type=click.IntRange(1, MAX_REQUESTS),
    default=20_000,
    show_default=True,
    help="Number of requests to simulate.",
)
@click.option(
    "--load",
    type=LOAD,
    metavar="FACTOR",
    help="Simulate queues, at this multiple of the profile's load.  [default: no queues]",
)
@queues_option
@click.option(
    "--independent",
    is_flag=True,
    help="Draw the latency of each stage on its own, rather than whole requests.",
)
@engine_options(processes="this one alone")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    profile: str,
    plan_file: str | None,
    requests: int,
    load: float | None,
    independent: bool,
    engine: str,
    jobs: int | None,
    seed: int,
    as_json: bool,
    queues: str | None,
) -> None:
    """Try a plan on the requests of PROFILE: as they were recorded, or in queues at another load.

    With --load, requests arrive at random times (a Poisson process), replicas serve calls in the order of
    arrival, and a copy is work like any other call. Load acts on stages whose replicas and busy times are
    known: from the profile, or by --queues. The prediction assumes that every replica has
    processors of its own; where replicas share processors, it does not hold.
    """
    learned = load_profile(profile)
    plan = None if plan_file is None else load_plan(plan_file)
    if plan is not None:
        check_belongs(plan, learned, str(plan_file), profile)
    if load is not None:
        if independent:
            raise InputError("does not go with --load, which keeps requests whole", where="--independent")
        with engine_at(engine, jobs) as run:
            simulate_loaded(
                learned,
                plan,
                load=load,
                requests=requests,
                seed=seed,
                as_json=as_json,
                queues=queues,
                spread=run or one_by_one,
            )
        if not as_json:
            note_few(learned)
            note_contradicted(learned)
        return
    if queues is not None:
        raise InputError("needs --load: without it no queues are simulated", where="--queues")
    from kwiken.model.profile.cost_models import spent_by_model
    from kwiken.tail.simulation.trace_driven import simulate

    with engine_at(engine, jobs) as run, progress("simulating"):
        result = simulate(
            learned,
            plan,
            requests=requests,
            seed=seed,
            independent=independent,
            spread=run or one_by_one,
        )
    by_model = spent_by_model(learned, plan.cost, result.stage_spent) if plan is not None else {}
    if as_json:
        print_json(_document(result, requests, seed) | {"spent_by_model": by_model})
    else:
        _show(result, learned, plan)
        note_few(learned)
        note_contradicted(learned)
        if plan is not None:
            say(f"copies by every count: {by_every_count(by_model)}")


def _document(result: Simulation, requests: int, seed: int) -> dict[str, object]:
    return {
        "before": result.before,
        "after": result.after,
        "spent": {
            "reissue": result.reissue,
            "utility_loss": result.utility_loss,
            "catch_up": result.catch_up,
        },
        "stages": _stages(result),
        "requests": requests,
        "seed": seed,
    }


def _stages(result: Simulation) -> dict[str, dict[str, float]]:
    """Spend and effect of the plan's levers, for each stage that has one."""
    names = dict.fromkeys((*result.stage_spent, *result.stage_loss, *result.stage_late))
    return {
        name: {
            "spent": result.stage_spent.get(name, 0.0),
            "fraction": result.stage_fraction.get(name, 0.0),
            "loss": result.stage_loss.get(name, 0.0),
            "late_spent": result.stage_late.get(name, 0.0),
        }
        for name in names
    }


def _show(result: Simulation, profile: Profile, plan: Plan | None) -> None:
    title = f"{len(result.before_ms)} requests of {profile.service}"
    print_table(title, ("ms", "before", "after", "change"), ladder_rows(result.before, result.after))
    if plan is None:
        say("", "no plan given, so nothing was spent")
        return
    columns = ("stage", "calls reissued", "share of cost", LOST[0], "spent on late requests")
    rows = [
        (name, *(f"{stage[field]:.2%}" for field in ("fraction", "spent", "loss", "late_spent")))
        for name, stage in _stages(result).items()
    ]
    say("")
    print_table("Spent", columns, rows)
    say("", f"extra requests: {result.reissue:.2%} of cost spent, {plan.budgets.reissue:.2%} allowed")
    if (passed := passed_budget(result.reissue, plan.budgets.reissue)) is not None:
        note(f"note: {passed}; a ledger would deny some copies, as `kwiken judge` shows")
    if plan.budgets.utility_loss or result.utility_loss:
        say(f"utility lost, {LOST[1]}: {result.utility_loss:.3%}, {plan.budgets.utility_loss:.3%} allowed")
    if plan.budgets.catch_up or result.catch_up:
        say(
            f"spent on late requests: {result.catch_up:.2%} of cost, {plan.budgets.catch_up:.2%} allowed; "
            f"{result.hurried:.2%} of the calls start late"
        )
