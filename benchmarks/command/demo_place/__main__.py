"""Demonstration of placement: services on unequal nodes, a load that doubles, and a node that is lost."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import json_option, needs_extra, seed_option
from papers.command import PaperCommand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.command.demo_place.outcome import PlacedArm, Recovery, ServiceOutcome

NOT_KEPT: Final = 1  # exit codes
NO_VERDICT: Final = 3
LOG_FILE: Final = "processes.log"
SHOWN_LINES: Final = 5  # of the log, after a failure


@click.command("benchmarks.command.demo_place", cls=PaperCommand)
@click.option(
    "--out",
    default="demo-place-out",
    show_default=True,
    metavar="DIR",
    help="Folder for the documents of the run and the log of all processes.",
)
@seed_option
@json_option
@needs_extra("plan")
def command(*, out: str, seed: int, as_json: bool) -> int:
    """Probe, classify, place and run three services on eight unequal nodes, which this machine emulates.

    The placements of three schedulers are run under the same load, one after another. Under the last one a
    load doubles, then a node is lost, and the targets are kept. It takes about four minutes.

    Exit code 1 when the last placement missed a target, 3 when the machine was too busy for a verdict.
    """
    import asyncio

    from benchmarks.command.demo_place.demo_verdict import verdict
    from benchmarks.command.demo_place.run import run_demo

    with _logged(out) as log:
        outcome = asyncio.run(run_demo(seed=seed, say=note, log=log))
    found = verdict(outcome)
    if as_json:
        import msgspec

        print_json({"outcome": msgspec.to_builtins(outcome), "verdict": msgspec.to_builtins(found)})
    else:
        _show(outcome.arms)
        say("")
        _show_change("after the load grew", outcome.growth, outcome.targets_ms)
        _show_change(f"after {outcome.loss.node} was lost", outcome.loss, outcome.targets_ms)
        say("")
        for line in found.lines:
            say(line)
    if not found.told:
        return NO_VERDICT
    return 0 if found.kept else NOT_KEPT


@contextlib.contextmanager
def _logged(folder: str) -> Iterator[Path]:
    """Keep log lines out of the demonstration's own lines: a new file in a folder takes them.

    When the demonstration fails, the last lines of the file are shown, since they may tell the reason.

    Args:
        folder: path of the folder, which is made.

    Yields:
        Path of the file.

    Raises:
        InputError: the folder or the file cannot be written; names it.
    """
    import logging
    from pathlib import Path

    path = Path(folder) / LOG_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        handler = logging.FileHandler(path, mode="a", encoding="utf-8")  # as the processes append to it
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    note(f"gateways and replicas write their log to {path}")
    logging.getLogger().addHandler(handler)
    try:
        yield path
    except Exception:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LINES:]:
            note(f"log: {line}")
        raise
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _show(arms: list[PlacedArm]) -> None:
    head = ("placed by", "service", "target ms", "p99 ms", "of it used", "kept", "requests", "failed", "on")
    rows = [
        (
            arm.scheduler,
            one.service,
            f"{one.target_ms:.0f}",
            f"{one.p99_ms:.0f}" if one.p99_ms is not None else "-",
            f"{one.p99_ms / one.target_ms:.0%}" if one.p99_ms is not None else "-",
            "yes" if one.met else "no",
            str(one.requests),
            str(one.failed),
            _where(one),
        )
        for arm in arms
        for one in arm.services
    ]
    print_table("", head, rows)


def _where(one: ServiceOutcome) -> str:
    """Nodes of a service, and whether there was too little room for it."""
    from kwiken.model.nodes.placement import PlacingStatus

    if not one.nodes:
        return "no room"
    return ", ".join(one.nodes) + (", short of room" if one.status is PlacingStatus.SHORT else "")


def _show_change(after: str, change: Recovery, targets_ms: Mapping[str, float]) -> None:
    """What was done after a change, and the p99 of each service from then to the next one."""
    say(after)
    for at_s, line in change.actions:
        say(f"{at_s:5.1f} s  {line}")
    found = [
        f"{name} {'-' if p99_ms is None else f'{p99_ms:.0f}'} of {targets_ms[name]:.0f} ms"
        for name, p99_ms in change.p99_ms.items()
    ]
    say(f"         p99 of the whole time: {', '.join(found)}")


if __name__ == "__main__":
    command.main()
