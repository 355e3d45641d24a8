"""`kwiken compare`: a plan on a running service, beside no plan and beside one percentile for all stages."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.cli.live.gateway.remote import remote_gateway, token_file_option
from kwiken.cli.shared.options import json_option, load_plan, needs_extra, seed_option

if TYPE_CHECKING:
    from kwiken.apps.compare.result import ComparisonResult
    from kwiken.model.plan.plan import Plan

LONGEST_S = 86_400.0


@click.command(short_help="Compare a plan on a running service with none and with one percentile.")
@click.argument("url")
@click.argument("plan")
@token_file_option
@click.option(
    "--seconds",
    type=click.FloatRange(1.0, LONGEST_S),
    default=600.0,
    show_default=True,
    help="Longest time; the comparison ends as soon as it is decided.",
)
@seed_option
@json_option
@needs_extra("plan")
def command(*, url: str, plan: str, token_file: str | None, seconds: float, seed: int, as_json: bool) -> int:
    """Compare PLAN at the gateway URL with no plan, and with copies at one percentile for the same budget.

    The requests are those that the service gets anyway; `kwiken load` sends some. Each request draws one of
    the three arms. At the end, and after Ctrl-C, the plan of before is in force again.
    """
    import asyncio

    document = load_plan(plan)
    address, token = remote_gateway(url, token_file)
    result, caught = asyncio.run(_compare(address, token, document, seconds=seconds, seed=seed))
    note("the plan of before is in force again")
    if as_json:
        print_json(result)
    else:
        _print(result)
    return 128 + caught if caught else 0


async def _compare(
    url: str, token: str, plan: Plan, *, seconds: float, seed: int
) -> tuple[ComparisonResult, int]:
    """Result, and the number of the signal that ended the comparison early; 0 for none."""
    import asyncio

    from kwiken.apps.compare.run import run_comparison
    from kwiken.runtime.gateway.control.client import ControlClient

    stop, caught = asyncio.Event(), [0]

    def halt(number: int) -> None:
        caught[0] = number
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, halt, number)
    client = ControlClient(url, token)
    result = await run_comparison(client, plan, longest_s=seconds, seed=seed, stop=stop, say=note)
    return result, caught[0]


def _print(result: ComparisonResult) -> None:
    from kwiken.apps.compare.result import ARM_WORDS

    rows = []
    for name, arm in result.arms.items():
        cut = arm.cut_by_plan
        between = "-" if cut is None else f"{cut.cut:.0%} ({cut.low:.0%} to {cut.high:.0%})"
        of = arm.latency
        ladder = (f"{each:.1f}" for each in (of.p50_ms, of.p90_ms, of.p99_ms))
        counts = (str(arm.requests), str(arm.failed))
        rows.append((ARM_WORDS[name], *counts, *ladder, between, arm.verdict or "-"))
    columns = ("arm", "requests", "failed", "p50 ms", "p90 ms", "p99 ms", "plan cuts p99 by", "plan is")
    print_table(f"{result.service}: {result.seconds:.0f} s", columns, rows)
    say(
        f"Budget {result.budget:.1%} of the work for both plans, spent together {result.spent:.1%} of all; "
        f"the one percentile is p{result.percentile:.4g}. Intervals hold nine times in ten; a verdict is "
        "wrong with a chance of at most 5%, over all looks together."
    )
