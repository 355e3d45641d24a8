"""`kwiken demo-batch`: batch jobs on three racks beside the search service, scheduled three ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import json_option, needs_extra, seed_option

if TYPE_CHECKING:
    from kwiken.apps.demo_batch.outcome import BatchDemo

NOT_KEPT: Final = 1  # exit codes
NO_VERDICT: Final = 3
LOG_FILE: Final = "processes.log"


@click.command()
@click.option(
    "--out",
    default="demo-batch-out",
    show_default=True,
    metavar="DIR",
    help="Folder for the plan of the run and the log of all processes.",
)
@seed_option
@json_option
@needs_extra("batch")
def command(*, out: str, seed: int, as_json: bool) -> int:
    """Run eight jobs on three racks of two workers, three ways, beside the search service; then stop a rack.

    Racks are network namespaces whose uplinks are limited, if this process may make them. It takes about four
    minutes. Exit code 1 when the plan moved more than half of the bytes across racks, raised the service's
    p99 by more than a fifth, or a job did not end; 3 when the machine was too busy for a verdict.
    """
    import asyncio
    from pathlib import Path

    import msgspec

    from kwiken.apps.demo_batch.outcome import verdict
    from kwiken.apps.demo_batch.run import run_demo_batch

    log = Path(out) / LOG_FILE
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(log)) from error
    note(f"all processes write their log to {log}")
    found = asyncio.run(run_demo_batch(seed=seed, say=note, log=log.absolute()))
    kept, lines = verdict(found)
    if as_json:
        print_json({"outcome": msgspec.to_builtins(found), "kept": kept, "verdict": lines})
    else:
        _show(found)
        say(*lines)
    return NO_VERDICT if kept is None else 0 if kept else NOT_KEPT


def _show(found: BatchDemo) -> None:
    head = (
        "way",
        "makespan s",
        "jobs",
        "MB across racks",
        "MB fetched",
        "p50 ms",
        "p99 ms",
        "requests",
        "failed",
    )
    rows = [
        (
            arm.name,
            f"{arm.makespan_s:.1f}" if arm is not found.alone else "-",
            str(arm.ended) if arm is not found.alone else "-",
            f"{arm.crossing_mb:.1f}",
            f"{arm.fetched_mb:.1f}",
            f"{arm.p50_ms:.1f}",
            f"{arm.p99_ms:.1f}" if arm.p99_ms is not None else "-",
            str(arm.requests),
            str(arm.failed),
        )
        for arm in (found.alone, *found.arms, found.lost)
    ]
    print_table("", head, rows)
