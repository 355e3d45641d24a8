"""Output folder of a demo, which `kwiken report` reads."""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from kwiken.apps.console.output import room_in, write_text
from kwiken.apps.report.model.rows import LoadRow
from kwiken.base.errors import InputError

TRACES = "traces"
SPAN_SUFFIXES = (".jsonl", ".jsonl.part", ".jsonl.gz", ".jsonl.gz.new")
PACKED_SUFFIX = ".jsonl.gz"
COMPRESSION_LEVEL = 1  # spans repeat themselves: a higher level gains little and takes twice as long
PACKING_THREADS = 2
MARKER_FILE = ".kwiken-demo"  # created at a demo's start, and locked while the demo runs
MB = 1_000_000
MIN_ROOM = 1 << 16  # free bytes; fewer hold not even one flush of the spans
RESULT_FILES = (
    "profile.json",
    "plan-first.json",
    "plan.json",
    "plan-even.json",
    "plan-p95.json",
    "demo.json",
    "load.jsonl",
    "report.html",
)


class Folder:
    """Output folder of a demo.

    Args:
        claim: descriptor of the locked marker file; None if no demo runs.
    """

    def __init__(self, path: Path, claim: int | None = None) -> None:
        self.path = path
        self._claim = claim

    @classmethod
    def make(cls, path: Path, *, needs: int = 0) -> Folder:
        """Create and lock the folder; removes the files of an earlier demo, and no others.

        Args:
            needs: lower bound of the bytes that will be written.

        Raises:
            InputError: when the folder cannot be made or written to, has no room, or holds files of these
                names that no demo wrote; names them.
        """
        try:
            old = [path / name for name in RESULT_FILES if (path / name).exists()]
            old += [file for file in sorted((path / TRACES).glob("*")) if file.name.endswith(SPAN_SUFFIXES)]
            if old and not ((path / MARKER_FILE).exists() or (path / "demo.json").exists()):
                raise InputError(
                    f"holds {old[0].relative_to(path)}, which no demo wrote and this one would replace; "
                    "give another folder",
                    where=str(path),
                )
            room = room_in(path) + sum(file.stat().st_size for file in old)
            if room < needs:
                raise InputError(
                    f"has room for {room / MB:.0f} MB, and a demo of this length writes {needs / MB:.0f} MB "
                    "or more; give another folder with --out, or lower --seconds or --rate",
                    where=str(path),
                )
            (path / TRACES).mkdir(parents=True, exist_ok=True)
            folder = cls(path, _claim(path / MARKER_FILE))
            for file in old:
                file.unlink()
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}", where=str(error.filename or path)
            ) from error
        return folder

    def check_room(self) -> None:
        """Check that more spans can be written: requests without spans cannot be judged.

        Raises:
            InputError: names the folder.
        """
        if room_in(self.path) < MIN_ROOM:
            raise InputError("no room is left there, so the traces are incomplete", where=str(self.path))

    def release(self) -> None:
        """Unlock the folder."""
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    @property
    def traces(self) -> Path:
        """Folder of the spans."""
        return self.path / TRACES

    @property
    def report(self) -> Path:
        """Path of the report."""
        return self.path / "report.html"

    def write(self, name: str, text: str) -> None:
        """Write one of the folder's files.

        Raises:
            InputError: when it cannot be written; names it.
        """
        write_text(str(self.path / name), text)

    def pack_traces(self) -> None:
        """Compress the files of spans, about twentyfold; `kwiken fit` and `kwiken report` read both forms.

        Raises:
            InputError: when they cannot be written; names the file.
        """
        loose = [path for path in sorted(self.traces.iterdir()) if path.name.endswith((".jsonl", ".part"))]
        with ThreadPoolExecutor(PACKING_THREADS) as packers:  # zlib releases the interpreter's lock
            for _ in packers.map(_pack, loose):
                pass

    def write_rows(self, rows: Iterable[LoadRow]) -> None:
        """Write `load.jsonl`, one request per line."""
        self.write("load.jsonl", "".join(msgspec.json.encode(row).decode() + "\n" for row in rows))


def _claim(mark: Path) -> int:
    """Lock the folder for this process; the kernel unlocks it when the process ends."""
    claim = os.open(mark, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        raise InputError("another demo writes there", where=str(mark.parent)) from None
    return claim


def _pack(path: Path) -> None:
    """Replace a file of spans by its compressed form; the old file stays until the new one is complete."""
    packed = path.with_name(path.name.removesuffix(".part").removesuffix(".jsonl") + PACKED_SUFFIX)
    fresh = packed.with_name(packed.name + ".new")
    try:
        with path.open("rb") as spans, gzip.open(fresh, "wb", compresslevel=COMPRESSION_LEVEL) as file:
            shutil.copyfileobj(spans, file, 1 << 20)
        fresh.replace(packed)
        path.unlink()
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", where=str(fresh)) from error
