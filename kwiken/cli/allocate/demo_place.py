"""`kwiken demo-place`: places services on unequal nodes, loads them, and stops a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kwiken.cli.shared import json_option, needs_extra, note, print_json, print_table, say, seed_option

if TYPE_CHECKING:
    from kwiken.cli.demo_place import Arm

NOT_KEPT: Final = 1  # exit codes
NO_VERDICT: Final = 3


@click.command()
@seed_option
@json_option
@needs_extra("plan")
def command(*, seed: int, as_json: bool) -> int:
    """Place three services and best-effort work on six nodes of unequal speed, which this machine plays.

    The placements of three schedulers are run under the same load, one after another. Then a node of the last
    one is stopped, and its replicas are started elsewhere. It takes about two and a half minutes.

    Exit code 1 when a target was not kept, 3 when the machine was too busy for a verdict.
    """
    import asyncio

    from kwiken.cli.demo_place import run_demo, verdict

    outcome = asyncio.run(run_demo(seed=seed, say=note))
    found = verdict(outcome)
    if as_json:
        import msgspec

        print_json({"outcome": msgspec.to_builtins(outcome), "verdict": msgspec.to_builtins(found)})
    else:
        _show(outcome.arms)
        say("")
        for at_s, line in outcome.loss.actions:
            say(f"{at_s:5.1f} s  {line}")
        say("")
        for line in found.lines:
            say(line)
    if not found.told:
        return NO_VERDICT
    return 0 if found.kept else NOT_KEPT


def _show(arms: list[Arm]) -> None:
    head = ("placed by", "service", "target ms", "p99 ms", "kept", "requests", "failed", "on")
    rows = [
        (
            arm.scheduler,
            one.service,
            f"{one.target_ms:.0f}",
            f"{one.p99_ms:.0f}" if one.p99_ms is not None else "-",
            "yes" if one.met else "no",
            str(one.requests),
            str(one.failed),
            ", ".join(one.nodes) or "no room",
        )
        for arm in arms
        for one in arm.services
    ]
    print_table("", head, rows, to_stdout=True)
