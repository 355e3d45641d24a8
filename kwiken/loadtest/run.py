"""One run from settings to report, in this process."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kwiken.errors import InputError
from kwiken.extras import needs
from kwiken.loadtest.patching import without_patching
from kwiken.loadtest.records import Records
from kwiken.loadtest.result import LoadResult, Progress
from kwiken.loadtest.settings import LoadSettings, prepare

_SPARE_FILES = 64


def run_load(settings: LoadSettings, *, on_progress: Callable[[Progress], None] | None = None) -> LoadResult:
    """Send the load and wait for every answer.

    Belongs into a process of its own: it takes over SIGINT and SIGTERM, freezes what the garbage
    collector has seen, and keeps one core as busy as the rate asks for.

    Args:
        settings: what to send.
        on_progress: called about four times a second; whatever it takes is added to requests due meanwhile.

    Raises:
        InputError: bad settings, or the target cannot be reached.
    """
    ready = prepare(settings)
    _allow_files(settings.max_in_flight)
    with _records(settings.records) as records:
        # Only now, when nothing typed can be wrong any more: the import takes most of a second.
        with without_patching(), needs("kwiken.loadtest.run_load", "load"):
            from kwiken.loadtest.local import LocalRun
        return LocalRun(ready, records, on_progress).go()


@contextmanager
def _records(path: str | None) -> Iterator[Records | None]:
    """The file of records, open as long as the load runs; None without a path."""
    if path is None:
        yield None
        return
    records = Records(path)
    try:
        yield records
    finally:
        records.close()


def _allow_files(sockets: int) -> None:
    """Each request in flight is an open socket: ask the system for as many files."""
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
