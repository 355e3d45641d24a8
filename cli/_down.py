"""`kwiken down`: stop the local cluster."""

from __future__ import annotations

from pathlib import Path

import click

from cli._output import note


@click.command(short_help="Stop the local cluster.")
@click.argument("service", required=False)
@click.option("--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of its state.")
def command(*, service: str | None, state: str) -> None:
    """Stop SERVICE, or every service that is up. What is not up stays so.

    Only processes that `kwiken up` started are signalled: pid and start time must both be as noted.
    """
    from runtime import StateFiles, stop_cluster

    folder = Path(state)
    named = service.rpartition(":")[2] if service is not None else None
    clusters = [StateFiles(folder, named)] if named is not None else list(StateFiles.all(folder))
    stopped = [files.service for files in clusters if stop_cluster(files)]
    for name in stopped:
        note(f"{name} is stopped")
    if not stopped:
        what = f"service {named!r}" if named is not None else "no service"
        note(f"{what} {'is not' if named is not None else 'is'} up in {state}")
