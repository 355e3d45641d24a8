"""`kwiken demo`: runs a real service under load, plans for it, and compares it with and without the plan."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, progress, say
from kwiken.apps.console.process import Terminated
from kwiken.cli.shared.options import POSITIVE, SHARE, json_option, needs_extra, seed_option

if TYPE_CHECKING:
    from kwiken.apps.report.model.result import DemoResult

NO_RESULT: Final = 3  # exit code


@click.command()
@click.option(
    "--seconds",
    type=POSITIVE,
    help="Seconds of load; start and evaluation come on top.  [default: 90 to 250, for 4,500 requests]",
)
@click.option(
    "--rate",
    type=POSITIVE,
    help="Requests per second.  [default: 12 to 100, a third of what the machine can do, or less]",
)
@click.option("--budget", type=SHARE, default=0.01, show_default=True, help="Extra work allowed, as a share.")
@click.option("--out", default="demo-out", show_default=True, metavar="DIR", help="Output folder.")
@click.option("--calm", is_flag=True, help="Pause no replicas.")
@seed_option
@json_option
@needs_extra("load", "report")
def command(
    *,
    seconds: float | None,
    rate: float | None,
    budget: float,
    out: str,
    calm: bool,
    seed: int,
    as_json: bool,
) -> int:
    """Start a search service as local processes, load it, learn, plan, apply the plan, and compare.

    Replicas of two stages, drawn by the seed, are paused in bursts, so that there is a tail to cut; --calm
    turns that off. Four arms run in turns: no plan, the plan, its budget spread evenly, and a copy at the p95
    of every stage. The folder holds up to 70 MB while it runs, and some 10 MB afterwards.

    The demo measures first what the machine can do, and sends what fits it (see --rate): three minutes, up to
    five on a busy machine. Blocks in which others take the processors are repeated, at a lower rate if need
    be. Exit code 3 if the machine is too slow or too busy to tell anything; one line says why, within half a
    minute where that can be seen at the start.
    """
    from kwiken.apps.demo.pace.attempt import InconclusiveRunError
    from kwiken.apps.demo.progress import TerminalWatch
    from kwiken.apps.demo.run import run_demo
    from kwiken.apps.demo.setup.settings import DemoSettings

    settings = DemoSettings(
        seconds=seconds,
        rate=rate,
        budget=budget,
        seed=seed,
        calm=calm,
        out=Path(out),
    )
    try:
        with progress("starting") as bar:
            result = _run(run_demo(settings, TerminalWatch(bar)))
    except InconclusiveRunError as error:
        note(f"kwiken: {error}")
        return NO_RESULT
    if as_json:
        print_json(result)
    else:
        _show(result)
    note(f"the seed {settings.seed} drew the disturbance; no other was tried in this run")
    note("", f"{settings.out / 'report.html'} shows it all")
    return 0


def _run(main: Coroutine[Any, Any, DemoResult]) -> DemoResult:
    """Run the demo to its end; SIGTERM stops it cleanly, as Ctrl-C does."""
    import asyncio

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
    from kwiken.apps.report.model.statistics import NAMES
    from kwiken.apps.report.sections.headline import of_result

    rows = latency_rows(result)
    note("")
    title = "Latency from the moment when a request was due; from the row 'as learned' on at the gateway"
    print_table(title, ("", *NAMES.values()), rows)
    say("")
    columns = ("stage", "cost", "copied", "after", "budget", "spent", "spent evenly")
    print_table("Where the budget went", columns, [_stage_row(stage) for stage in result.stages])
    say("", *of_result(result))


def latency_rows(result: DemoResult) -> list[tuple[str, ...]]:
    """Rows of latencies with one arm each, and the change against the arm to compare with.

    The expectation is for the requests that the plan was learned from, at the gateway, so its change is
    against those. What was achieved there is compared with the expectation for the requests without a plan in
    the same minutes, and without one with that for the requests that the plan was learned from.
    """
    from kwiken.apps.report.model.number_format import change, ms
    from kwiken.apps.report.model.statistics import rungs

    learned = result.expectation.before
    arms = [
        ("before", result.before, None),
        ("after", result.after, result.before),
        ("even", result.even, result.before),
        ("p95", result.p95, result.before),
        ("as learned", learned, None),
        ("expected", result.expected, learned),
    ]
    expected = result.expected
    if result.meanwhile is not None:
        expected = result.meanwhile.after
        arms.append(("meanwhile", result.meanwhile.before, None))
        arms.append(("expected meanwhile", expected, result.meanwhile.before))
    if result.achieved.p99_ms > 0:
        arms.append(("achieved", result.achieved, expected))
    rows = []
    for name, ladder, base in arms:
        told = [ms(value) for value in rungs(ladder).values()]
        if base is not None:
            changes = (
                change(*pair) for pair in zip(rungs(base).values(), rungs(ladder).values(), strict=True)
            )
            told = [f"{cell} ({moved})" for cell, moved in zip(told, changes, strict=True)]
        rows.append((name, *told))
    return rows


def _stage_row(stage: Any) -> tuple[str, ...]:
    from kwiken.apps.report.model.number_format import ms, percent

    shares = [percent(share) for share in (stage.budget, stage.used, stage.even_used)]
    return (stage.name, percent(stage.cost), percent(stage.fraction), ms(stage.after_ms), *shares)
