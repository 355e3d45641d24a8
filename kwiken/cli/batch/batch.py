"""`kwiken batch`: learns batch jobs from their logs, predicts and plans them."""

from __future__ import annotations

from typing import Final

import click

from kwiken.cli.shared.verb_group import LazyCommand, LazyGroup

# Line of help of each command. It stands here so that a help text imports no module of a command.
COMMANDS: Final = {
    "fit": LazyCommand(
        "kwiken.cli.batch.batch_fit", "Learn jobs, stages, tasks and bytes from logs of Spark and Hadoop."
    ),
    "predict": LazyCommand(
        "kwiken.cli.batch.batch_predict", "Predict how long a job takes with other executors, links or input."
    ),
    "profile": LazyCommand(
        "kwiken.cli.batch.batch_profile", "Run a job of Dask once on one worker, and learn from it."
    ),
    "record": LazyCommand(
        "kwiken.cli.batch.racks.batch_record", "Record the tasks of a running Dask, for fit to read."
    ),
    "run": LazyCommand(
        "kwiken.cli.batch.racks.batch_run", "Run planned jobs on Dask, on the workers of their racks."
    ),
    "plan": LazyCommand(
        "kwiken.cli.batch.batch_plan",
        "Choose racks, order and places of data of jobs; the bound and the gap.",
    ),
}
REMOVED: Final = {
    "admit": "`kwiken batch predict --deadline`, which says the fewest executors",
    "copies": "the speculation of the engine, such as spark.speculation",
}


@click.command(cls=LazyGroup, name="batch", lazy=COMMANDS, removed=REMOVED, noun="command")
def command() -> None:
    """Predict how long batch jobs take with other resources, and plan where they run."""
