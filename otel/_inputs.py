"""Where traces come from: files, folders, compressed or not, and what is read of them when."""

from __future__ import annotations

import gzip
import io
import mmap
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from kwiken import InputError

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 16 << 30  # of one input, unpacked
IN_MEMORY: Final = 16 << 20  # of a document; a larger one is read from a file
_CHUNK: Final = 1 << 20
SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz", ".jsonl.part")
PART: Final = ".part"


class Stream(Protocol):
    """Bytes to read, from a file or unpacked on the way."""

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes; none at the end."""

    def readline(self, size: int = -1, /) -> bytes:
        """A line with its break; nothing at the end."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """One file to read.

    Attributes:
        path: of it.
        size: in bytes, as it is on disk.
        named: whether the user named this very file, rather than a folder that it is in.
    """

    path: Path
    size: int
    named: bool

    @property
    def growing(self) -> bool:
        """Whether a service may be writing it right now; its last line may then be cut off."""
        return self.path.name.endswith(PART)


def find_files(paths: Iterable[str | Path]) -> list[TraceFile]:
    """The files to read, folders searched for those that may hold traces, each once, in order of name.

    Raises:
        InputError: a path that is not there or cannot be read, or a folder without such files; names it.
    """
    found: dict[Path, TraceFile] = {}
    for given in paths:
        path = Path(given)
        try:
            inside = sorted(_inside(path)) if path.is_dir() else [path]
            if not inside:
                raise InputError(
                    f"holds no files named {', '.join(SUFFIXES[:3])} or .gz of them", where=str(path)
                )
            for file in inside:
                size = file.stat().st_size  # before its links are followed, which tells less of what is wrong
                found.setdefault(file.resolve(), TraceFile(file, size, file == path))
        except OSError as error:
            raise InputError(error.strerror or str(error), where=str(path)) from error
        except ValueError as error:  # a zero byte in its name
            raise InputError(str(error), where=repr(str(path))) from error
        if len(found) > MAX_FILES:
            raise InputError(f"there are more than {MAX_FILES} files", where=str(path))
    # A file written to goes on growing while the others are read, so it is read last.
    return sorted(found.values(), key=lambda file: file.growing)


def _inside(folder: Path) -> Iterator[Path]:
    for number, path in enumerate(folder.rglob("*")):
        if number > 10 * MAX_FILES:
            raise InputError("holds too many files to search", where=str(folder))
        if path.name.endswith(SUFFIXES) and not path.name.startswith(".") and path.is_file():
            yield path


@contextmanager
def opened(path: Path) -> Iterator[tuple[Stream, IO[bytes]]]:
    """A file's bytes, unpacked, and the file itself, whose position tells how far reading has come.

    Raises:
        InputError: it cannot be read, or unpacked; names it.
    """
    try:
        with io.BufferedReader(io.FileIO(path), _CHUNK) as raw:
            if raw.peek(2)[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield unpacked, raw
            else:
                yield raw, raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"is broken or cut off: {error}", where=str(path)) from error
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(path)) from error


class Again:
    """What was spooled, read a second time from its start."""

    def __init__(self, document: memoryview) -> None:
        self._document = document
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes; none at the end."""
        return self._take(len(self._document) if size < 0 else self._at + size)

    def readline(self, size: int = -1, /) -> bytes:
        """A line with its break, or as much of it as asked for; nothing at the end."""
        end = len(self._document) if size < 0 else min(len(self._document), self._at + size)
        for at in range(self._at, end, _CHUNK):
            found = bytes(self._document[at : min(end, at + _CHUNK)]).find(b"\n")
            if found >= 0:
                return self._take(at + found + 1)
        return self._take(end)

    def _take(self, end: int) -> bytes:
        part = bytes(self._document[self._at : end])
        self._at += len(part)
        return part


def whole(start: bytes, rest: Stream, where: str) -> memoryview:
    """All of a document: in memory where it is small, else in a file that the system pages in and out.

    Args:
        start: what was read of it already.
        rest: where the rest comes from.
        where: named in errors.

    Raises:
        InputError: larger than `MAX_BYTES`, or not text.
    """
    if len(start) < IN_MEMORY:
        start += rest.read(IN_MEMORY - len(start))
    if len(start) < IN_MEMORY:
        return memoryview(start)
    with tempfile.TemporaryFile() as spool:
        size = 0
        chunk = start
        while chunk:
            check_text(chunk, where)
            size += len(chunk)
            if size > MAX_BYTES:
                raise InputError(f"is larger than {MAX_BYTES >> 30} GiB, the most that is read", where=where)
            spool.write(chunk)
            chunk = rest.read(_CHUNK)
        spool.flush()
        # Not closed by hand: an error on its way out may hold a view of a part. It goes with the last view.
        return memoryview(mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ))


def check_text(part: bytes, where: str) -> None:
    """Refuse what no JSON holds, before all of it is read: a file with holes may seem to be of any size.

    Raises:
        InputError: there is a zero byte.
    """
    if b"\0" in part:
        raise InputError("holds zero bytes, so it is binary or has holes; it is no JSON", where=where)
