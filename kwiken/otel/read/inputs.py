"""Trace inputs: files and folders, plain or compressed by gzip, bounded in size."""

from __future__ import annotations

import gzip
import io
import mmap
import os
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

from kwiken.base.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 16 << 30  # of one input, unpacked
MAX_RATIO: Final = 100  # unpacked bytes for one packed: traces, which repeat themselves, come to 10 to 60
RATIO_FREE: Final = 32 << 20  # unpacked bytes that no ratio is asked of
IN_MEMORY: Final = 16 << 20  # of a document; a larger one is read from a file
_CHUNK: Final = 1 << 20
SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz", ".jsonl.part")
PART: Final = ".part"


class ByteStream(Protocol):
    """Readable stream of bytes, from a file or decompressed on the fly."""

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes; none at the end."""

    def readline(self, size: int = -1, /) -> bytes:
        """A line with its line end; empty at the end."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """One file to read.

    Attributes:
        size: size on disk, bytes.
        named: True if the user named the file itself, False if a folder that holds it.
    """

    path: Path
    size: int
    named: bool

    @property
    def growing(self) -> bool:
        """True if a service may still be writing it, so that its last line may be incomplete."""
        return self.path.name.endswith(PART)


def find_files(paths: Iterable[str | Path]) -> list[TraceFile]:
    """Find the files to read, each once; folders are searched for files that may hold traces.

    Files are in order of name, those that are still being written last.

    Raises:
        InputError: a path is missing or cannot be read, or a folder holds no such files; names the path.
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
                about = file.stat()  # before `resolve`, whose errors tell less
                if stat.S_ISFIFO(about.st_mode):
                    raise InputError("is a pipe; traces are read from files and folders", where=str(path))
                found.setdefault(file.resolve(), TraceFile(file, about.st_size, file == path))
        except OSError as error:
            raise InputError(error.strerror or str(error), where=str(path)) from error
        except ValueError as error:  # a zero byte in its name
            raise InputError(str(error), where=repr(str(path))) from error
        if len(found) > MAX_FILES:
            raise InputError(f"there are more than {MAX_FILES} files", where=str(path))
    # A growing file gets more lines while the others are read, so it is read last.
    return sorted(found.values(), key=lambda file: file.growing)


def _inside(folder: Path) -> Iterator[Path]:
    seen = 0
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        seen += len(folders) + len(names)
        if seen > 10 * MAX_FILES:
            raise InputError("holds too many files to search", where=str(folder))
        for name in names:
            path = Path(place) / name
            if name.endswith(SUFFIXES) and not name.startswith(".") and path.is_file():
                yield path


def _unreadable(error: OSError) -> None:
    """Refuse an unreadable folder; if it counted as empty, its traces would be missing from the profile."""
    raise InputError(f"cannot be read: {error.strerror}", where=str(error.filename)) from error


class _Unpacked(io.RawIOBase):
    """Decompressed bytes of a gzip file; refuses a file with the compression ratio of a zip bomb."""

    def __init__(self, packed: IO[bytes], where: str) -> None:
        self._packed = packed
        self._gzip = gzip.GzipFile(fileobj=packed)
        self._where = where
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        count = self._gzip.readinto(buffer)
        self._size += count
        if self._size > RATIO_FREE and self._size > MAX_RATIO * self._packed.tell():
            raise InputError(
                f"unpacks to more than {MAX_RATIO} times its size, which no traces do", where=self._where
            )
        return count


@contextmanager
def opened(path: Path) -> Iterator[tuple[ByteStream, IO[bytes]]]:
    """Open a file: its decompressed bytes, and the raw file, whose position tells the progress.

    Raises:
        InputError: the file cannot be read or decompressed; names the file.
    """
    try:
        with io.BufferedReader(io.FileIO(path), _CHUNK) as raw:
            if raw.peek(2)[:2] == b"\x1f\x8b":
                with io.BufferedReader(_Unpacked(raw, str(path)), _CHUNK) as unpacked:
                    yield unpacked, raw
            else:
                yield raw, raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"is broken or cut off: {error}", where=str(path)) from error
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(path)) from error


class Again:
    """Stream over a document in memory, from its start."""

    def __init__(self, document: memoryview) -> None:
        self._document = document
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes; none at the end."""
        return self._take(len(self._document) if size < 0 else self._at + size)

    def readline(self, size: int = -1, /) -> bytes:
        """A line with its line end, or `size` bytes of it; empty at the end."""
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


def whole(start: bytes, rest: ByteStream, where: str) -> memoryview:
    """Read all of a document: into memory if it is small, else into a memory-mapped temporary file.

    Args:
        start: first part of the document, already read.

    Raises:
        InputError: the document is larger than `MAX_BYTES`, or not text.
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
        # Not closed here: an exception may hold a view of a part. The map is freed with its last view.
        return memoryview(mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ))


def check_text(part: bytes, where: str) -> None:
    """Refuse zero bytes, which JSON never holds, early: a sparse file may seem to be of any size.

    Raises:
        InputError: the part holds a zero byte.
    """
    if b"\0" in part:
        raise InputError("holds zero bytes, so it is binary or has holes; it is no JSON", where=where)
