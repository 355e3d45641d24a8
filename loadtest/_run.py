"""One run from settings to report, in this process."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kwiken import InputError
from loadtest._outcome import Outcome
from loadtest._patching import without_patching
from loadtest._records import Records
from loadtest._report import LoadReport
from loadtest._settings import LoadSettings, Prepared, prepare

_SPARE_FILES = 64


@dataclass(slots=True)
class Progress:
    """How far a run is; all counts so far, the warm-up included.

    Attributes:
        seconds: since its start.
        ok: requests that were answered well.
        failed: requests that were answered otherwise, or not at all.
        dropped: requests that were never sent, since too many were unanswered.
        in_flight: requests without an answer yet.
    """

    seconds: float = 0.0
    ok: int = 0
    failed: int = 0
    dropped: int = 0
    in_flight: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        if outcome.error is None:
            self.ok += 1
        elif outcome.dropped:
            self.dropped += 1
        else:
            self.failed += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A finished run.

    Attributes:
        ready: the settings with what was read from them.
        report: its statistics.
        answered: how many requests got any HTTP answer, warm-up included.
        interrupted: number of the signal that ended it early, or None.
        records_failure: why the records file is not whole, or None.
    """

    ready: Prepared
    report: LoadReport
    answered: int
    interrupted: int | None
    records_failure: str | None

    def to_json(self) -> dict[str, Any]:
        """What `kwiken load --json` prints."""
        settings = self.ready.settings
        asked = {
            "url": self.ready.target.url,
            "arrivals": settings.arrivals,
            "seed": settings.seed,
            "interrupted": self.interrupted is not None,
        }
        return asked | self.report.to_json()


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
        with without_patching():
            from loadtest._local import LocalRun
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
