"""Files of job logs: what a path names, unpacked as it is read, within bounds."""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from kwiken.apps.console.output import reason_of
from kwiken.base.errors import InputError
from kwiken.base.extras import needs
from kwiken.base.machine.files import MIB, open_regular

if TYPE_CHECKING:
    from kwiken.batch.jobs.logs.reading import LogFindings

BUFFER: Final = 1 << 20  # bytes
BUFFER_OF_ZSTD: Final = 1 << 17  # bytes; what is lost at most where a file is damaged
GZIP_STREAM: Final = 31  # window of zlib that stands for the format of gzip
MAX_FILES: Final = 100_000  # of one folder
MAX_DEPTH: Final = 4  # folders below the one that is named
MIN_UNPACKED: Final = 1024 * MIB  # that any file may unpack to
MAX_RATIO: Final = 1000  # bytes out for a byte in; Spark's own logs reach 50
MIN_LINE: Final = 64  # bytes that a line counts as at least, since empty lines take time as well
ZSTD: Final = b"\x28\xb5\x2f\xfd"
GZIP: Final = b"\x1f\x8b"
OTHER_CODECS: Final = {b"LZ4B": "lz4", b"\x82SNAP": "snappy", b"ZV": "lzf"}
PART: Final = re.compile(r"events_(\d{1,9})_(.+?)(?:\.(?:zstd|zst|gz|compact))*")
EXTENSIONS: Final = re.compile(r"(?:\.(?:zstd|zst|gz|jhist|tsv|json|inprogress))+$")


@dataclass
class JobLog:
    """One log: the files that hold it, in order.

    Attributes:
        name: name for a job whose log gives none.
        source: address that the files were fetched from; empty for files of this machine.
    """

    name: str
    files: list[Path]
    source: str = ""

    @property
    def where(self) -> str:
        """What messages call it: where it was fetched from, its file, or the folder of its files."""
        return self.source or str(self.files[0] if len(self.files) == 1 else self.files[0].parent)


@dataclass
class Unpacking:
    """Faults found while the files of a log were unpacked; empty for none."""

    problems: list[str] = field(default_factory=list)


def logs_at(path: str) -> list[JobLog]:
    """Logs that a path names: a file, or all files of a folder, where the parts of a rolled log are one.

    Raises:
        InputError: there is no such file, or a folder holds none, too many, or is too deep.
    """
    start = Path(path)
    try:
        there, is_folder = start.exists(), start.is_dir()
    except (OSError, ValueError) as error:  # too long a name, or a NUL in it
        raise InputError(reason_of(error), where=path) from error
    if not is_folder:
        if not there:
            address = "; a history server is named spark://HOST:18080" if "://" in path else ""
            raise InputError(f"no such file or folder{address}", where=path)
        return [JobLog(EXTENSIONS.sub("", start.name), [start])]
    files = sorted(_files(start, MAX_DEPTH, {start.resolve()}))
    if not files:
        raise InputError("the folder holds no file", where=path)
    if len(files) > MAX_FILES:
        raise InputError(f"holds {len(files)} files; {MAX_FILES} is the most", where=path)
    rolled: dict[tuple[Path, str], list[tuple[int, Path]]] = {}
    logs: list[JobLog] = []
    for file in files:
        part = PART.fullmatch(file.name)
        if part is None:
            logs.append(JobLog(EXTENSIONS.sub("", file.name), [file]))
        else:
            rolled.setdefault((file.parent, part[2]), []).append((int(part[1]), file))
    logs += [JobLog(name, [file for _, file in sorted(parts)]) for (_, name), parts in rolled.items()]
    return sorted(logs, key=lambda log: log.files)


def _files(folder: Path, deeper: int, seen: set[Path]) -> Iterator[Path]:
    """Files of a folder and of those below, without hidden ones; links that lead back are not followed."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if not entry.is_dir():
            yield entry
        elif deeper and (whole := entry.resolve()) not in seen:
            seen.add(whole)
            yield from _files(entry, deeper - 1, seen)


def read_job_log(log: JobLog) -> tuple[LogFindings | None, list[str]]:
    """Jobs of a log, None for files that are no log; and problems of unpacking, one sentence each.

    Raises:
        InputError: a file that may not be read, that unpacks to too much, or in a codec that is not read.
    """
    from kwiken.batch.jobs.logs.reading import read_log

    unpacking = Unpacking()
    found = read_log(_lines(log, unpacking), name=log.name, where=log.where)
    return found, unpacking.problems


def _lines(log: JobLog, unpacking: Unpacking) -> Iterator[bytes]:
    from kwiken.batch.jobs.logs.reading import MAX_LINE

    for file in log.files:
        told = f"{log.source}: {file.name}" if log.source else str(file)
        with ExitStack() as opened:
            try:
                raw = opened.enter_context(cast("AbstractContextManager[IO[bytes]]", open_regular(file)))
            except OSError as error:
                raise InputError(reason_of(error), where=told) from error
            packed = os.fstat(raw.fileno()).st_size
            left = max(MIN_UNPACKED, MAX_RATIO * packed)
            lines = _unpacked(cast(io.BufferedReader, raw), opened, told)
            while True:
                try:
                    line = lines.readline(MAX_LINE + 1)
                except _unpacking_errors() as error:
                    unpacking.problems.append(f"{told}: is damaged from here on: {error}")
                    break
                if not line:
                    break
                left -= max(MIN_LINE, len(line))
                if left < 0:
                    bound = f"{max(MIN_UNPACKED, MAX_RATIO * packed) // MIB} MiB"
                    raise InputError(
                        f"unpacks to more than {bound}, the most that is read; each line counts as at least "
                        f"{MIN_LINE} bytes",
                        where=told,
                    )
                if len(line) > MAX_LINE:
                    raise InputError(f"has a line of more than {MAX_LINE // MIB} MiB", where=told)
                yield line


def _unpacked(raw: io.BufferedReader, opened: ExitStack, where: str) -> io.BufferedReader:
    """Reader of the lines of a file, whatever it is packed with."""
    head = raw.peek(8)[:8]
    if head.startswith(ZSTD):
        with needs("batch fit of zstd", "batch"):
            import zstandard
        unpacker = zstandard.ZstdDecompressor()
        stream = opened.enter_context(unpacker.stream_reader(raw, read_size=BUFFER, read_across_frames=True))
        return io.BufferedReader(cast("Any", stream), BUFFER_OF_ZSTD)
    if head.startswith(GZIP):
        return io.BufferedReader(_Inflated(raw), BUFFER)
    for magic, name in OTHER_CODECS.items():
        if head.startswith(magic):
            raise InputError(f"is packed with {name}; zstd and gzip are read", where=where)
    return raw


class _Inflated(io.RawIOBase):
    """Unpacked bytes of a gzip file; one that is cut raises EOFError there.

    Args:
        packed: file of one or several gzip members.
    """

    def __init__(self, packed: io.BufferedReader) -> None:
        self._packed = packed
        self._inflater = zlib.decompressobj(GZIP_STREAM)
        self._waiting = b""
        self._within = False  # a member, whose end has not come

    def readable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes; 0 at the end."""
        while True:
            if self._inflater.eof:
                self._waiting = self._inflater.unused_data or self._waiting
                self._inflater = zlib.decompressobj(GZIP_STREAM)
                self._within = False
            packed = self._waiting or self._packed.read(BUFFER_OF_ZSTD)
            if not packed:
                if self._within:
                    raise EOFError("the file is cut")
                return 0
            self._within = True
            found = self._inflater.decompress(packed, len(buffer))
            self._waiting = self._inflater.unconsumed_tail
            if found:
                buffer[: len(found)] = found
                return len(found)


def _unpacking_errors() -> tuple[type[Exception], ...]:
    found: list[type[Exception]] = [EOFError, zlib.error, OSError]
    try:
        import zstandard
    except ModuleNotFoundError:
        pass
    else:
        found.append(cast("type[Exception]", zstandard.ZstdError))
    return tuple(found)
