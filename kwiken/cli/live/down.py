"""`kwiken down`: stop the local cluster."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import service_name

if TYPE_CHECKING:
    from kwiken.runtime.cluster.state.files import StateFiles


@click.command(short_help="Stop the local cluster.")
@click.argument("service", required=False)
@click.option(
    "--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of the cluster's state."
)
def command(*, service: str | None, state: str) -> None:
    """Stop SERVICE, or every service that is up. A service that is not up is no error.

    Services that one `kwiken up` keeps stop together.

    Only processes that `kwiken up` started are signalled: both pid and start time must match its state.
    """
    from kwiken.runtime.cluster.state.files import StateFiles
    from kwiken.runtime.cluster.state.rentals import settle_orphans

    folder = Path(state)
    named = service_name(service, folder) if service is not None else None
    clusters = [StateFiles(folder, named)] if named is not None else list(StateFiles.all(folder))
    failures, stopped = [], []
    for files in clusters:  # one that cannot be stopped does not keep the others up
        if files.service in stopped:
            continue
        try:
            together = [files, *_of_same_supervisor(files)]
            ran = [_stop(each) for each in together]
            if any(ran):
                stopped += [each.service for each in together]
        except InputError as error:
            failures.append(error)
    if folder.is_dir() and (orphans := settle_orphans(folder)):
        note(f"given back, since what rented them was killed: {', '.join(orphans)}")
    for name in stopped:
        note(f"{name} is stopped")
    for failure in failures[1:]:
        note(f"kwiken: {failure}")
    if failures:
        raise failures[0]
    if not stopped:
        what = f"service {named!r}" if named is not None else "no service"
        note(f"{what} {'is not' if named is not None else 'is'} up in {state}")


def _of_same_supervisor(files: StateFiles) -> list[StateFiles]:
    """Other services whose supervisor is that of a service: they end with it."""
    from kwiken.runtime.cluster.state.files import StateFiles

    state, found = files.read(), []
    for each in StateFiles.all(files.folder) if state is not None else ():
        with contextlib.suppress(InputError):  # an unreadable state is told when its own service is stopped
            other = each.read()
            if other is not None and state is not None and other.supervisor == state.supervisor:
                found += [each] if each.service != files.service else []
    return found


def _stop(files: StateFiles) -> bool:
    from kwiken.runtime.cluster.state.stop import stop_cluster

    try:
        return stop_cluster(files)
    except PermissionError as error:
        raise InputError(
            f"{files.service} cannot be stopped: {error.strerror}; did another user start it?",
            where=str(files.folder),
        ) from error
