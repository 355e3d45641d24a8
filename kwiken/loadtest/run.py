"""Entry point for a load run in this process: settings in, result out."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kwiken.base.errors import InputError
from kwiken.base.extras import needs
from kwiken.loadtest.inputs.settings import LoadSettings, prepare
from kwiken.loadtest.patching import without_patching
from kwiken.loadtest.results.records import Records
from kwiken.loadtest.results.result import LoadResult, Progress

_SPARE_FILES = 64


def run_load(settings: LoadSettings, *, on_progress: Callable[[Progress], None] | None = None) -> LoadResult:
    """Send the load and wait for every answer.

    Run it in a process of its own: it handles SIGINT and SIGTERM, exempts the objects that exist from garbage
    collection, and uses up to a whole core.

    Args:
        on_progress: callback, called about four times a second; the time it takes delays requests that are
            due meanwhile. None for none.

    Raises:
        InputError: bad settings, or the target cannot be reached.
    """
    ready = prepare(settings)
    _allow_files(settings.max_in_flight)
    with _records(settings.records) as records:
        # Imported after the settings were checked, because the import takes most of a second.
        with without_patching(), needs("kwiken.loadtest.run_load", "load"):
            from kwiken.loadtest.local import LocalRun
        return LocalRun(ready, records, on_progress).go()


@contextmanager
def _records(path: str | None) -> Iterator[Records | None]:
    """Open the file of records for as long as the load runs; None without a path."""
    if path is None:
        yield None
        return
    records = Records(path)
    try:
        yield records
    finally:
        records.close()


def _allow_files(sockets: int) -> None:
    """Raise the limit of open files, because each request in flight is an open socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = sockets + _SPARE_FILES
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard != resource.RLIM_INFINITY and hard < need:
        raise InputError(
            f"{sockets} needs {need} open files, but this machine allows {hard}; lower it or raise ulimit -n",
            where="max in flight",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
