"""The folder that a demo writes; `kwiken report` reads it again."""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from kwiken.cli.report.model import LoadRow
from kwiken.cli.shared import room_in, write_text
from kwiken.errors import InputError

TRACES = "traces"
SPANS = (".jsonl", ".jsonl.part", ".jsonl.gz", ".jsonl.gz.new")
PACKED = ".jsonl.gz"
LEVEL = 1  # spans repeat themselves: little is gained by more, and it takes twice as long
PACKERS = 2
MARK = ".kwiken-demo"  # there from a demo's start, and held by it for as long as it runs
MB = 1_000_000
FULL = 1 << 16  # bytes: less than one flush of the spans
OWN = ("profile.json", "plan.json", "plan-even.json", "demo.json", "load.jsonl", "report.html")


class Folder:
    """Writes each thing in its place.

    Args:
        path: of the folder.
        claim: number of the open file that says that it is in use; None where no demo runs.
    """

    def __init__(self, path: Path, claim: int | None = None) -> None:
        self.path = path
        self._claim = claim

    @classmethod
    def make(cls, path: Path, *, needs: int = 0) -> Folder:
        """The folder, made where it is missing; what an earlier demo left in it is removed, and nothing else.

        Args:
            path: of the folder.
            needs: bytes that will be written there, at the least.

        Raises:
            InputError: when it cannot be made or written to, has no room, or files of these names are there
                that no demo wrote; names them.
        """
        try:
            old = [path / name for name in OWN if (path / name).exists()]
            old += [file for file in sorted((path / TRACES).glob("*")) if file.name.endswith(SPANS)]
            if old and not ((path / MARK).exists() or (path / "demo.json").exists()):
                raise InputError(
                    f"holds {old[0].relative_to(path)}, which no demo wrote and this one would replace; "
                    "give another folder",
                    where=str(path),
                )
            room = room_in(path) + sum(file.stat().st_size for file in old)
            if room < needs:
                raise InputError(
                    f"has room for {room / MB:.0f} MB, and a demo of this length writes {needs / MB:.0f} MB "
                    "or more; give another folder by --out, or lower --seconds or --rate",
                    where=str(path),
                )
            (path / TRACES).mkdir(parents=True, exist_ok=True)
            folder = cls(path, _claim(path / MARK))
            for file in old:
                file.unlink()
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}", where=str(error.filename or path)
            ) from error
        return folder

    def check_room(self) -> None:
        """Refuse to go on where nothing more can be written: what is not traced cannot be judged.

        Raises:
            InputError: names the folder.
        """
        if room_in(self.path) < FULL:
            raise InputError("no room is left there, so the traces are incomplete", where=str(self.path))

    def release(self) -> None:
        """Give the folder back."""
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    @property
    def traces(self) -> Path:
        """The sink's folder."""
        return self.path / TRACES

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    def write(self, name: str, text: str) -> None:
        """Write one of the folder's files.

        Raises:
            InputError: when it cannot be written; names it.
        """
        write_text(str(self.path / name), text)

    def pack_traces(self) -> None:
        """Compress the spans, about twentyfold; `kwiken fit` and `kwiken report` read them as they are.

        Raises:
            InputError: when they cannot be written; names the file.
        """
        loose = [path for path in sorted(self.traces.iterdir()) if path.name.endswith((".jsonl", ".part"))]
        with ThreadPoolExecutor(PACKERS) as packers:  # zlib works outside the interpreter's lock
            for _ in packers.map(_pack, loose):
                pass

    def write_rows(self, rows: Iterable[LoadRow]) -> None:
        """Write `load.jsonl`."""
        self.write("load.jsonl", "".join(msgspec.json.encode(row).decode() + "\n" for row in rows))


def _claim(mark: Path) -> int:
    """Claim the folder for this process; the kernel gives it back at the latest at its end."""
    claim = os.open(mark, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        raise InputError("another demo writes there", where=str(mark.parent)) from None
    return claim


def _pack(path: Path) -> None:
    """Replace a file of spans by its compressed form; the old one stays until the new one is whole."""
    packed = path.with_name(path.name.removesuffix(".part").removesuffix(".jsonl") + PACKED)
    fresh = packed.with_name(packed.name + ".new")
    try:
        with path.open("rb") as spans, gzip.open(fresh, "wb", compresslevel=LEVEL) as file:
            shutil.copyfileobj(spans, file, 1 << 20)
        fresh.replace(packed)
        path.unlink()
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", where=str(fresh)) from error
