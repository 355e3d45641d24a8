"""Journal of batch jobs: one line for each event, appended; a line that a kill cut short is dropped."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.machine.files import READABLE, open_own, read_own, replace_own
from kwiken.runtime.cluster.state.jobs.documents import JobEvent

MAX_JOURNAL: Final = 64 << 20  # bytes
SHORTENED: Final = 8 << 20  # bytes from which a journal loses the events of old jobs
KEPT: Final = 2_000  # jobs that ended whose events are kept then, and when a program starts
_DECODER: Final = msgspec.json.Decoder(JobEvent)


class JobJournal:
    """Journal that one program appends to.

    Args:
        path: path of the file, whose folder exists.

    Attributes:
        events: events that were there at the start, oldest first; those of old jobs are dropped.

    Raises:
        InputError: the file is not a journal; names the line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.events = self._shorten()
        self._open()

    def append(self, event: JobEvent) -> None:
        """Write an event; it survives a kill of this program as soon as this returns.

        Raises:
            OSError: the file cannot be written.
        """
        data = memoryview(_line(event))
        self._size += len(data)
        while data:
            data = data[os.write(self._file, data) :]
        if self._size > self._longest:
            self._shorten()
            self.close()
            self._open()

    def _shorten(self) -> list[JobEvent]:
        """Drop events of old jobs, and a line that was cut short: the next line begins on its own."""
        events = kept_events(read_events(self._path))
        replace_own(self._path, b"".join(_line(event) for event in events), READABLE)
        return events

    def _open(self) -> None:
        self._file = open_own(self._path, os.O_WRONLY | os.O_APPEND)
        self._size = os.fstat(self._file).st_size
        self._longest = max(SHORTENED, 2 * self._size)  # bytes at which the file is shortened next

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _line(event: JobEvent) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def read_events(path: Path) -> list[JobEvent]:
    """Read a journal; empty if there is none. A last line without an end is dropped.

    Raises:
        InputError: the file is not a journal; names the line.
    """
    try:
        text = read_own(path, MAX_JOURNAL, of_others=True)
    except FileNotFoundError:
        return []
    lines = text.split(b"\n")[:-1]
    events = []
    for number, line in enumerate(lines, start=1):
        try:
            events.append(_DECODER.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"line {number}: is not an event: {error}", where=str(path)) from error
    return events


def kept_events(events: Iterable[JobEvent]) -> list[JobEvent]:
    """Events of the jobs that have not ended, and of the last ones that have."""
    found = list(events)
    ended = [event.job for event in found if event.kind.final]
    dropped = set(ended[:-KEPT])
    return [event for event in found if event.job not in dropped]
