"""`kwiken simulate`: what a plan would do to a profile's requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli._options import POSITIVE, json_option, load_plan, load_profile, seed_option
from cli._output import note, print_json, print_table, progress
from cli._plan import ladder_rows
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
    "--load", type=POSITIVE, default=1.0, show_default=True, help="Load, as a factor of the profile's."
)
@click.option("--independent", is_flag=True, help="Draw every stage on its own, not whole requests.")
@seed_option
@json_option
def command(
    *,
    profile: str,
    plan_file: str | None,
    requests: int,
    load: float,
    independent: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Replay the requests of PROFILE, drawn with replacement, without a plan and with one."""
    if load != 1:
        raise InputError("queueing is not simulated yet; leave it at 1", where="--load")
    from kwiken import simulate

    learned = load_profile(profile)
    plan = None if plan_file is None else load_plan(plan_file)
    if plan is not None:
        _check(plan, learned, str(plan_file), profile)
    with progress("simulating"):
        result = simulate(learned, plan, requests=requests, seed=seed, independent=independent)
    if as_json:
        print_json(_document(result, requests, seed))
    else:
        _show(result, learned, plan)


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
