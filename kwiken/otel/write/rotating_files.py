"""Rotating line files of bounded size and number; write errors are counted, not raised."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PART: Final = ".part"  # how the name of a file still being written ends
SUFFIX: Final = ".jsonl"
_ABANDONED_S: Final = 3600.0
_RETRY_S: Final = 1.0
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(slots=True)
class FileCounts:
    """Counts of lines, bytes and files written, and of lines lost."""

    lines: int = 0
    bytes: int = 0
    files: int = 0
    lost_lines: int = 0
    errors: int = 0
    last_error: str | None = None


@dataclass(slots=True)
class LineFiles:
    """Files of lines in one folder: `NAME.PID.000001.jsonl`, the open one with `.part` behind.

    A closed file is complete: it gets its final name in one step. A line is whole or absent: if a write
    fails half-way (a full disk), the file is truncated to its last whole line and the loss counted; writing
    is tried again a second later. The oldest closed files of the same name are deleted when there are more
    than `max_files`.

    Not thread-safe. Nothing here raises after construction.

    Args:
        folder: folder of the files, made if it is missing.
        name: first part of the file names, such as a service's name; unfit characters are replaced.
        max_bytes: maximal size of one file, bytes; a longer line is lost.
        max_files: maximal number of files of one name, over all processes, the open one included.
        clock: clock in seconds, for the time of the next try.

    Raises:
        OSError: the folder cannot be made.
    """

    folder: Path
    name: str
    max_bytes: int = 64 << 20
    max_files: int = 16
    clock: Callable[[], float] = time.monotonic
    counts: FileCounts = field(default_factory=FileCounts)
    _fd: int | None = None
    _path: Path | None = None
    _size: int = 0
    _sequence: int = 0
    _retry_at: float = 0.0

    def __post_init__(self) -> None:
        """Make the folder and replace characters of the name that file names must not hold."""
        self.name = _UNSAFE.sub("_", self.name)[:100] or "spans"
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, lines: list[bytes]) -> None:
        """Write lines, each with its newline; lines that cannot be written are counted as lost."""
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if len(line) > self.max_bytes:
                self._count_lost(1, f"a line of {len(line)} bytes is longer than a file may be")
                continue
            if batch and self._size + size + len(line) > self.max_bytes:
                self._append(batch, size)
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        if batch:
            self._append(batch, size)

    def close(self) -> None:
        """Give the open file its final name; an empty one is removed."""
        fd, path = self._fd, self._path
        self._fd = self._path = None
        if fd is None or path is None:
            return
        try:
            os.close(fd)
            if self._size:
                path.replace(path.with_suffix(""))
            else:
                path.unlink()
        except OSError as error:
            self._note(error)

    def _append(self, lines: list[bytes], size: int) -> None:
        if self._fd is not None and self._size + size > self.max_bytes:
            self.close()
        if not self._open():
            self._count_lost(len(lines))
            return
        try:
            self._write_all(b"".join(lines))
        except OSError as error:
            self._note(error)
            self._count_lost(len(lines))
            self._truncate()
            return
        self._size += size
        self.counts.bytes += size
        self.counts.lines += len(lines)

    def _open(self) -> bool:
        """Open a file if none is open; False if that fails or is not yet tried again."""
        if self._fd is not None:
            return True
        if self.clock() < self._retry_at:
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)  # somebody may have taken it away
            while self._fd is None:
                self._sequence += 1
                final = self.folder / f"{self.name}.{os.getpid()}.{self._sequence:06d}{SUFFIX}"
                if final.exists():  # an earlier process had this number
                    continue
                path = final.with_name(final.name + PART)
                with contextlib.suppress(FileExistsError):
                    self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                    self._path = path
        except OSError as error:
            self._note(error)
            return False
        self._size = 0
        self.counts.files += 1
        self._drop_oldest()
        return True

    def _write_all(self, data: bytes) -> None:
        assert self._fd is not None
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _truncate(self) -> None:
        """Take a torn line back off the file; begin a new file where even that fails."""
        assert self._fd is not None
        try:
            os.ftruncate(self._fd, self._size)
            os.lseek(self._fd, self._size, os.SEEK_SET)
        except OSError as error:
            self._note(error)
            self.close()

    def _drop_oldest(self) -> None:
        closed: list[tuple[float, Path]] = []
        open_files = 0
        now = time.time()
        own_files = re.compile(rf"{re.escape(self.name)}\.\d+\.\d+{re.escape(SUFFIX)}({re.escape(PART)})?\Z")
        try:
            for path in self.folder.iterdir():
                if own_files.match(path.name) is None:
                    continue
                modified = path.stat().st_mtime
                if path.suffix == PART and now - modified < _ABANDONED_S:
                    open_files += 1
                else:
                    closed.append((modified, path))
        except OSError as error:  # a sibling process removed one just now
            self._note(error)
            return
        closed.sort()
        for _, path in closed[: max(0, len(closed) + open_files - self.max_files)]:
            with contextlib.suppress(OSError):
                path.unlink()

    def _count_lost(self, lines: int, reason: str | None = None) -> None:
        self.counts.lost_lines += lines
        if reason is not None:
            self.counts.last_error = reason

    def _note(self, error: OSError) -> None:
        self.counts.errors += 1
        self.counts.last_error = str(error)
        self._retry_at = self.clock() + _RETRY_S
