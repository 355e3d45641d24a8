"""`kwiken demo`: a real service under load, learned, planned for, and compared with itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli._options import POSITIVE, SHARE, json_option, seed_option
from cli._output import note, print_json, print_table, progress
from cli._process import Terminated

if TYPE_CHECKING:
    from cli.reporting import DemoResult

SECONDS, RATE = 66.0, 50.0


@click.command()
@click.option(
    "--seconds",
    type=POSITIVE,
    default=SECONDS,
    show_default=True,
    help="Seconds of load; starting and judging come on top.",
)
@click.option("--rate", type=POSITIVE, default=RATE, show_default=True, help="Requests per second.")
@click.option("--budget", type=SHARE, default=0.05, show_default=True, help="Extra work allowed, as a share.")
@click.option(
    "--out", default="demo-out", show_default=True, metavar="DIR", help="Folder for all that comes out."
)
@click.option("--calm", is_flag=True, help="Disturb nothing.")
@seed_option
@json_option
def command(
    *, seconds: float, rate: float, budget: float, out: str, calm: bool, seed: int, as_json: bool
) -> None:
    """Start a search service as local processes, load it, learn, plan, apply the plan, and compare.

    A replica of each stage, any of them, is paused in bursts, so that there is a tail to cut; --calm turns
    that off. The folder holds up to 100 MB while it runs, and some 10 MB afterwards.
    """
    from cli.demo import DemoSettings, TerminalWatch, divide, run_demo

    settings = DemoSettings(seconds=seconds, rate=rate, budget=budget, seed=seed, calm=calm, out=Path(out))
    with progress("starting", total=divide(seconds).total_s) as bar:
        result = _run(run_demo(settings, TerminalWatch(bar)))
    if as_json:
        print_json(result)
    else:
        _show(result)
    note(f"\n{settings.out / 'report.html'} shows it all")


def _run(main: Coroutine[Any, Any, DemoResult]) -> DemoResult:
    """Run it to its end; SIGTERM ends it as Ctrl-C does, in good order."""
    terminated = False

    async def guarded() -> DemoResult:
        task = asyncio.current_task()
        assert task is not None

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await main

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise (Terminated if terminated else KeyboardInterrupt) from None


def _show(result: DemoResult) -> None:
    from cli.reporting import NAMES, change, ms, of_result, rungs

    arms = {name: rungs(getattr(result, name)) for name in ("before", "after", "even", "expected")}
    rows = [
        (name, *(f"{ms(values[key])} ({change(arms['before'][key], values[key])})" for key in values))
        if name != "before"
        else (name, *(ms(values[key]) for key in values))
        for name, values in arms.items()
    ]
    note("")
    print_table("Latency from the moment when a request was due", ("", *NAMES.values()), rows, to_stdout=True)
    print()
    columns = ("stage", "cost", "copied", "after", "budget", "spent", "spent evenly")
    print_table(
        "Where the budget went", columns, [_stage_row(stage) for stage in result.stages], to_stdout=True
    )
    print("", *of_result(result), sep="\n")


def _stage_row(stage: Any) -> tuple[str, ...]:
    from cli.reporting import ms, percent

    shares = [percent(share) for share in (stage.budget, stage.used, stage.even_used)]
    return (stage.name, percent(stage.cost), percent(stage.fraction), ms(stage.after_ms), *shares)
