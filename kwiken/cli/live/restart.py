"""`kwiken restart`: replace the processes of the local cluster one after another."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError, KwikenError
from kwiken.cli.shared.options import service_name

if TYPE_CHECKING:
    from kwiken.runtime.cluster.state.documents import ClusterState
    from kwiken.runtime.cluster.state.files import StateFiles

RESTART: Final = signal.SIGUSR1  # to the supervisor, which restarts all processes of all its services
POLL_S: Final = 0.05


@click.command(short_help="Replace the processes of the local cluster, one after another.")
@click.argument("service", required=False)
@click.option(
    "--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of the cluster's state."
)
def command(*, service: str | None, state: str) -> None:
    """Replace all processes of SERVICE, or of all services, by processes of the code that is now on disk.

    Replicas go first. A replica ends once the gateways send its calls to its successor, so no request is
    lost; a gateway ends before its successor starts, and keeps its port. Code that does not start ends the
    restart, and processes that were not reached go on. A change of the stages themselves needs a new
    `kwiken up`.
    """
    from kwiken.runtime.cluster.state.files import StateFiles

    folder = Path(state)
    clusters = (
        [StateFiles(folder, service_name(service, folder))] if service else list(StateFiles.all(folder))
    )
    before = {files.service: _read(files) for files in clusters}
    if not before:
        raise InputError("no service is up", where=state)
    for supervisor in {each.supervisor for each in before.values()}:
        supervisor.signal(RESTART)
    for files in clusters:
        after = _once_restarted(files, before[files.service].restart.number)
        note(f"{files.service}: {len(after.children)} processes run the code that is now on disk")


def _read(files: StateFiles) -> ClusterState:
    """State of a cluster that is up.

    Raises:
        InputError: the service is not up.
    """
    state = files.read()
    if state is None or not state.ready or not state.supervisor.alive:
        raise InputError(f"service {files.service!r} is not up", where=str(files.folder))
    return state


def _once_restarted(files: StateFiles, number: int) -> ClusterState:
    """Wait for the end of the restart after one of a number; each process has limits of time of its own.

    Raises:
        KwikenError: a process did not start; with its reason.
    """
    while (state := _read(files)).restart.number == number or state.restart.running:
        time.sleep(POLL_S)
    if state.restart.error:
        raise KwikenError(f"{files.service}: {state.restart.error}; what was not reached runs the old code")
    return state
