"""`kwiken storage`: the workloads of disks, and the places of data sets."""

from __future__ import annotations

from typing import Final

import click

from kwiken.cli.shared.verb_group import LazyCommand, LazyGroup

# Line of help of each command. It stands here so that a help text imports no module of a command.
COMMANDS: Final = {
    "fit": LazyCommand("kwiken.cli.data.storage.fit", "Learn a storage workload from a trace of block I/O."),
    "generate": LazyCommand(
        "kwiken.cli.data.storage.generate", "Write I/Os drawn from a model, or a job of fio."
    ),
    "judge": LazyCommand("kwiken.cli.data.storage.judge", "Judge a model on what it was not trained on."),
    "pack": LazyCommand("kwiken.cli.data.storage.pack", "Place data sets on few nodes under latency limits."),
}
REMOVED: Final = {"replay": "`kwiken storage generate MODEL --to fio -o FILE`, then `fio FILE`"}


@click.command(cls=LazyGroup, name="storage", lazy=COMMANDS, removed=REMOVED, noun="command")
def command() -> None:
    """Learn what a stage's disks do, generate the load, and place data sets on nodes."""
