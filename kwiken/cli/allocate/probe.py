"""`kwiken probe`: measures this machine's contention, and stages in a sandbox."""

from __future__ import annotations

from typing import Final

import click

from kwiken.cli.shared.verb_group import LazyCommand, LazyGroup

# Line of help of each command. It stands here so that a help text imports no module of a command.
COMMANDS: Final = {
    "machine": LazyCommand(
        "kwiken.cli.allocate.probing.probe_machine",
        "Calibrate tunable contention for each shared resource of this machine.",
    ),
    "stage": LazyCommand(
        "kwiken.cli.allocate.probing.probe_stage", "Measure a stage in a sandbox, for kwiken classify."
    ),
}


@click.command(cls=LazyGroup, name="probe", lazy=COMMANDS, noun="command")
def command() -> None:
    """Measure contention for the shared resources of this machine, and how a stage uses them.

    Everything that a probe starts ends with it, also when it is interrupted or killed.
    """
