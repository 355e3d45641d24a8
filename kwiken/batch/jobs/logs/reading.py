"""Jobs from the lines of one log: kind of log detected by content, damaged lines counted and left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.dask_tasks import HEAD as DASK_HEAD, DaskReader
from kwiken.batch.jobs.logs.hadoop import JSON_HEAD, HadoopReader
from kwiken.batch.jobs.logs.spark import SparkReader
from kwiken.batch.jobs.logs.swim import COLUMNS, SwimReader

MAX_LINE: Final = 64 << 20  # bytes of one event; the largest hold a plan of a query
SNIFFED: Final = 4096  # bytes of a line by which the kind is told
MAX_SNIFFED_LINES: Final = 20  # lines that may be damaged before the first that tells the kind
MAX_SNIFFED: Final = 4 << 20  # bytes of these, and of empty lines between them


_Known = SparkReader | HadoopReader | DaskReader | SwimReader


class _Reader(Protocol):
    def feed(self, line: bytes) -> None: ...

    def jobs(self) -> list[BatchJob]: ...


@dataclass
class LogFindings:
    """Jobs of a log, and what was wrong with it.

    Attributes:
        jobs: runs that it holds.
        lines: number of lines that were read.
        damaged: number of lines that could not be read.
        first_damaged: number of the first of them, from 1; 0 for none.
        first_problem: what is wrong with that line.
    """

    kind: str
    jobs: list[BatchJob] = field(default_factory=list)
    lines: int = 0
    damaged: int = 0
    first_damaged: int = 0
    first_problem: str = ""


def read_log(lines: Iterable[bytes], *, name: str, where: str) -> LogFindings | None:
    """Read the jobs of one log as far as it goes; None for a file that is no log of jobs.

    Args:
        lines: lines, with or without their ends.
        name: name of a job whose log gives none.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: the log has more stages than are read.
    """
    found: LogFindings | None = None
    reader: _Reader | None = None
    unclear: list[bytes] = []
    looked = 0
    for line in lines:
        if reader is None:
            told = _kind(line)
            if told is None:
                looked += len(line) + 1
                if line.strip():
                    unclear.append(line)
                if len(unclear) > MAX_SNIFFED_LINES or looked > MAX_SNIFFED:
                    return None
                continue
            found, reader = LogFindings(told[0]), told[1](name)
            for early in unclear:
                _take(reader, early, found, where)
        assert found is not None
        _take(reader, line, found, where)
    if found is None or reader is None:
        return None
    found.jobs = reader.jobs()
    return found


def _take(reader: _Reader, line: bytes, found: LogFindings, where: str) -> None:
    found.lines += 1
    try:
        reader.feed(line)
    except InputError as error:
        raise InputError(error.problem, where=where) from error
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        found.damaged += 1
        if found.damaged == 1:
            found.first_damaged = found.lines
            found.first_problem = str(error)


def _kind(line: bytes) -> tuple[str, type[_Known]] | None:
    """Kind of a log by one of its first lines, and its reader; None where the line does not tell."""
    head = line[:SNIFFED].strip()
    if head.startswith(b"{") and b'"Event":' in head:
        return "Spark event log", SparkReader
    if head == JSON_HEAD or (head.startswith(b'{"type":"') and b'"event":' in head):
        return "Hadoop job history", HadoopReader
    if head.startswith(DASK_HEAD):
        return "recording of Dask", DaskReader
    cells = head.split(b"\t")
    if len(cells) == COLUMNS and all(cell.isdigit() for cell in cells[1:]):
        return "table of SWIM", SwimReader
    return None
