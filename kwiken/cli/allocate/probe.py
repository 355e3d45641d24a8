"""`kwiken probe`: measures this machine's contention, and stages in a sandbox."""

from __future__ import annotations

import importlib
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import click

from kwiken.cli.shared import Terminated, VerbContext

T = TypeVar("T")
# By name of a command: the module that holds it, and its line of help, so that a help text imports neither.
COMMANDS: Final = {
    "machine": "Calibrate tunable contention for each shared resource of this machine.",
    "stage": "Measure a stage in a sandbox, for kwiken classify.",
}


class Probes(click.Group):
    """Group of the probes, which imports the module of a probe on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every probe."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The probe's command; None where there is none of this name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"kwiken.cli.allocate.probe_{cmd_name}").command
        assert isinstance(command, click.Command)
        command.context_class = VerbContext
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of probes."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Probes, name="probe")
def command() -> None:
    """Measure what shared resources of this machine cost, and what a stage takes of them.

    Everything that a probe starts ends with it, also when it is interrupted or killed.
    """


def run_probe(work: Coroutine[Any, Any, T]) -> T:
    """Run a probe to its end; SIGTERM cancels it as Ctrl-C does, so that it cleans up.

    Args:
        work: the probe.

    Raises:
        Terminated: SIGTERM came.
    """
    import asyncio
    import signal

    async def guarded() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise Terminated from None
