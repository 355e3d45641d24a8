"""`kwiken simulate`: what a plan would do to a profile's requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cli._loaded import simulate_loaded
from cli._options import POSITIVE, json_option, load_plan, load_profile, seed_option
from cli._output import note, print_json, print_table, progress
from cli._plan import ladder_rows
from cli._queues import queue_options
from kwiken import InputError

if TYPE_CHECKING:
    from kwiken import Plan, Profile, Simulation

MAX_REQUESTS = 10_000_000


@click.command()
@click.argument("profile", metavar="PROFILE")
@click.option(
    "--plan", "plan_file", metavar="FILE", help="The plan to try; without it both arms are the same."
)
@click.option("--requests", type=click.IntRange(1, MAX_REQUESTS), default=20_000, show_default=True)
@click.option(
    "--load",
    type=POSITIVE,
    metavar="FACTOR",
    help="Simulate queues, at FACTOR times the profile's load.  [default: replay latencies as they were]",
)
@queue_options
@click.option("--independent", is_flag=True, help="Draw every stage on its own, not whole requests.")
@seed_option
@json_option
def command(
    *,
    profile: str,
    plan_file: str | None,
    requests: int,
    load: float | None,
    independent: bool,
    seed: int,
    as_json: bool,
    **queues: Any,
) -> None:
    """Try a plan on the requests of PROFILE: replayed as they were, or through queues at another load.

    With --load, requests arrive as a Poisson process, replicas serve calls in the order of arrival, copies
    are work like any other, and losers are cancelled. Load acts on stages whose busy times and replicas are
    known: from the profile, or by --utilisation and --replicas.
    """
    learned = load_profile(profile)
    plan = None if plan_file is None else load_plan(plan_file)
    if plan is not None:
        _check(plan, learned, str(plan_file), profile)
    if load is not None:
        if independent:
            raise InputError("does not go with --load, which keeps requests whole", where="--independent")
        simulate_loaded(learned, plan, load=load, requests=requests, seed=seed, as_json=as_json, **queues)
        return
    _refuse_idle(queues)
    from kwiken import simulate

    with progress("simulating"):
        result = simulate(learned, plan, requests=requests, seed=seed, independent=independent)
    if as_json:
        print_json(_document(result, requests, seed))
    else:
        _show(result, learned, plan)


def _refuse_idle(queues: Mapping[str, Any]) -> None:
    """Settings of queues say nothing where none are simulated."""
    for name in ("replicas", "utilisation", "rate"):
        if queues[name]:
            raise InputError("needs --load: without it no queues are simulated", where=f"--{name}")


def _check(plan: Plan, profile: Profile, plan_file: str, profile_file: str) -> None:
    if plan.service != profile.service:
        raise InputError(
            f"is a plan for service {plan.service!r}, and {profile_file} is of {profile.service!r}",
            where=plan_file,
        )
    if plan.profile != profile.digest:
        note(f"note: {plan_file} was made from another profile of the same service")


def _document(result: Simulation, requests: int, seed: int) -> dict[str, object]:
    return {
        "before": result.before,
        "after": result.after,
        "spent": {"reissue": result.reissue, "utility_loss": 0.0, "catch_up": 0.0},
        "stages": {
            name: {"spent": spent, "fraction": result.stage_fraction[name]}
            for name, spent in result.stage_spent.items()
        },
        "requests": requests,
        "seed": seed,
    }


def _show(result: Simulation, profile: Profile, plan: Plan | None) -> None:
    title = f"{len(result.before_ms)} requests of {profile.service}"
    print_table(
        title, ("ms", "before", "after", "change"), ladder_rows(result.before, result.after), to_stdout=True
    )
    if plan is None:
        print("\nno plan given, so nothing was spent")
        return
    rows = [
        (name, f"{result.stage_fraction[name]:.2%}", f"{spent:.2%}")
        for name, spent in result.stage_spent.items()
    ]
    print_table("\nSpent", ("stage", "calls reissued", "share of cost"), rows, to_stdout=True)
    print(f"\nextra requests: {result.reissue:.2%} of cost spent, {plan.budgets.reissue:.2%} allowed")
