"""`kwiken probe`: measures this machine's contention, and stages in a sandbox."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import click

from kwiken.apps.console import Terminated, note
from kwiken.cli.shared import LazyCommand, LazyGroup

T = TypeVar("T")
QUIET_S: Final = (
    0.5  # for which the use of processors by other programs is measured, before a probe and after it
)
MAX_TAKEN: Final = 0.15  # processors: more use by other programs is noted
# Line of help of each command. It stands here so that a help text imports no module of a command.
COMMANDS: Final = {
    "machine": LazyCommand(
        "kwiken.cli.allocate.probe_machine",
        "Calibrate tunable contention for each shared resource of this machine.",
    ),
    "stage": LazyCommand(
        "kwiken.cli.allocate.probe_stage", "Measure a stage in a sandbox, for kwiken classify."
    ),
}


@click.command(cls=LazyGroup, name="probe", lazy=COMMANDS, noun="command")
def command() -> None:
    """Measure contention for the shared resources of this machine, and how a stage uses them.

    Everything that a probe starts ends with it, also when it is interrupted or killed.
    """


def run_probe(work: Coroutine[Any, Any, T]) -> T:
    """Run a probe to its end, and note if others used the processors just before it or after it.

    SIGTERM cancels the probe as Ctrl-C does, so that it cleans up.

    Raises:
        Terminated: SIGTERM came.
    """
    import asyncio
    import signal

    async def guarded() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        before = await _used_by_others()
        found = await work
        _note_others((before + await _used_by_others()) / 2)
        return found

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise Terminated from None
    finally:
        work.close()  # after an early interrupt the coroutine has never started


async def _used_by_others() -> float:
    """Processors that other programs and the hypervisor use, measured while the probe rests."""
    import asyncio

    from kwiken.base.machine import read_processors, use_between

    first = read_processors()
    await asyncio.sleep(QUIET_S)
    last = read_processors()
    return 0.0 if first is None or last is None else use_between(first, last).taken


def _note_others(taken: float) -> None:
    if taken > MAX_TAKEN:
        note(
            f"others used {taken:.2g} processors beside the probe: what it measured is rough; "
            "repeat it on a quiet machine"
        )
