"""Readers of block traces in text: the format is told from the content.

Each format is one regular expression for a whole line, run over blocks of text, so that no line is handled by
Python code. A line that does not match is an error that names the line; the last line of a file that ends
without a line feed may be cut and is left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.storage.trace.block_trace import MAX_OFFSET, SECTOR, BlockTrace, RecordError, trace_of

MAX_RECORDS: Final = 50_000_000
SAMPLE_LINES: Final = 20  # of the beginning, by which the format is told
_NUMBER: Final = r"\d{1,18}"
_TIME: Final = r"\d{1,18}(?:\.\d{1,12})?"
_END: Final = r"[ \t]*\r?$"
Columns = list[tuple[str, ...]]


@dataclass(frozen=True)
class TraceFormat:
    """Format of a trace in text.

    Attributes:
        name: name for messages to users.
        line: pattern of one record, with a group for each column.
        skipped: pattern of lines that hold no record, such as comments and headers.
        build: function from columns of text, the source's name and notes to a trace.
    """

    name: str
    line: re.Pattern[str]
    skipped: re.Pattern[str]
    build: Callable[[Columns, str, Sequence[str]], BlockTrace]


def _ints(column: Sequence[str]) -> Ints:
    return np.array(column, dtype="U18").astype(np.int64)


def _sectors(column: Sequence[str]) -> Ints:
    """Bytes of numbers of sectors; one too large for 64 bits becomes one that `trace_of` refuses."""
    return np.minimum(_ints(column), MAX_OFFSET // SECTOR + 1) * SECTOR


def _mqsim(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    t, device, sector, sectors, kind = columns
    return trace_of(
        _seconds(t, 1e-9),
        _ints(device),
        _sectors(sector),
        _sectors(sectors),
        np.array(kind) == "1",
        where=where,
        notes=notes,
    )


def _seconds(column: Sequence[str], unit: float) -> Floats:
    """Times in seconds; whole numbers lose no digit before the first is taken off."""
    if not any("." in text for text in column):
        whole = _ints(column)
        seconds: Floats = (whole - whole.min()).astype(np.float64) * unit
        return seconds
    return np.array(column, dtype=np.float64) * unit


def _msr(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    t, host, disk, kind, offset, size = columns
    return trace_of(
        _seconds(t, 1e-7),
        [f"{name}.{number}" for name, number in zip(host, disk, strict=True)],
        _ints(offset),
        _ints(size),
        np.char.lower(np.array(kind)) == "read",
        where=where,
        notes=notes,
    )


def _spc(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    unit, sector, size, kind, t = columns
    return trace_of(
        np.array(t, dtype=np.float64),
        _ints(unit),
        _sectors(sector),
        _ints(size),
        np.char.lower(np.array(kind)) == "r",
        where=where,
        notes=notes,
    )


READ_COMMANDS: Final = ("8", "40", "136", "168")  # READ 6, 10, 16, 12 of SCSI
WRITE_COMMANDS: Final = ("10", "42", "138", "170")  # WRITE 6, 10, 16, 12


def _vscsi(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    size, command, sector, t = columns
    commands = np.array(command)
    kept = np.isin(commands, (*READ_COMMANDS, *WRITE_COMMANDS))
    told = list(notes)
    if not kept.all():
        told.append(f"{int((~kept).sum())} SCSI commands that are no read or write were left out")
    if not kept.any():
        raise InputError("holds no read and no write command of SCSI", where=where)
    return trace_of(
        _seconds(t, 1e-6)[kept],
        np.zeros(int(kept.sum()), dtype=np.int64),
        (_sectors(sector))[kept],
        _ints(size)[kept],
        np.isin(commands, READ_COMMANDS)[kept],
        where=where,
        notes=told,
        records=np.flatnonzero(kept),
    )


def _blkparse(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    device, t, process, action, kind, sector, sectors = columns
    actions, kinds = np.array(action), np.array(kind)
    moved = np.char.find(kinds, "R") >= 0
    written = np.char.find(kinds, "W") >= 0
    told = list(notes)
    for wanted in ("Q", "D", "C"):
        kept = (actions == wanted) & (moved | written) & (np.array(sectors) != "")
        if kept.any():
            if wanted != "Q":
                told.append(f"no I/O is traced when it is queued (Q); those of {wanted} were taken")
            break
    else:
        raise InputError("holds no read or write with action Q, D or C", where=where)
    return trace_of(
        np.array(t, dtype=np.float64)[kept],
        list(itertools.compress(device, kept)),
        _sectors(np.array(sector)[kept].tolist()),
        _sectors(np.array(sectors)[kept].tolist()),
        moved[kept],
        _ints(np.array(process)[kept].tolist()),
        where=where,
        notes=told,
        records=np.flatnonzero(kept),
    )


def _iolog3(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    t, name, kind, offset, size = columns
    kept = np.isin(np.array(kind), ("read", "write"))
    if not kept.any():
        raise InputError("holds no read and no write", where=where)
    return trace_of(
        _seconds(np.array(t)[kept].tolist(), 1e-6),  # fio writes microseconds
        list(itertools.compress(name, kept)),
        _ints(np.array(offset)[kept].tolist()),
        _ints(np.array(size)[kept].tolist()),
        np.array(kind)[kept] == "read",
        where=where,
        notes=notes,
        records=np.flatnonzero(kept),
    )


def _iolog2(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    name, kind, offset, size = columns
    kinds = np.array(kind)
    waits = np.where(kinds == "wait", _ints([text or "0" for text in offset]), 0)
    kept = np.isin(kinds, ("read", "write"))
    if not kept.any():
        raise InputError("holds no read and no write", where=where)
    told = [*notes]
    if not waits.any():
        told.append("the log tells no time (version 2 without waits): gaps are all 0")
    return trace_of(
        (np.cumsum(waits) * 1e-6)[kept],
        list(itertools.compress(name, kept)),
        _ints(np.array(offset)[kept].tolist()),
        _ints(np.array(size)[kept].tolist()),
        kinds[kept] == "read",
        where=where,
        notes=told,
        records=np.flatnonzero(kept),
    )


def _own(columns: Columns, where: str, notes: Sequence[str]) -> BlockTrace:
    t, volume, start, size, kind, thread = columns
    return trace_of(
        np.array(t, dtype=np.float64),
        volume,
        _ints(start),
        _ints(size),
        np.array(kind) == "R",
        _ints(thread),
        where=where,
        notes=notes,
    )


OWN_HEADER: Final = "t_s,volume,start,size,op,thread"
# A read or write of fio's logs has its offset and its size; other actions may have neither.
_WHOLE: Final = rf"(?!(?:read|write)[ \t]*(?:{_NUMBER}[ \t]*)?\r?$)"
_NOTHING: Final = r"^(?:[ \t]*(?:#.*)?\r?)$"


def _format(
    name: str, line: str, build: Callable[[Columns, str, Sequence[str]], BlockTrace], skipped: str = ""
) -> TraceFormat:
    other = f"|{skipped}" if skipped else ""
    return TraceFormat(
        name,
        re.compile(f"^{line}{_END}", re.MULTILINE | re.ASCII),
        re.compile(f"{_NOTHING}{other}", re.ASCII),
        build,
    )


FORMATS: Final = (
    _format(
        "kwiken CSV",
        rf"({_TIME}(?:e-?\d+)?),([^,\s]{{1,200}}),({_NUMBER}),({_NUMBER}),([RW]),({_NUMBER})",
        _own,
        rf"^{OWN_HEADER}\r?$",
    ),
    _format(
        "MQSim",
        rf"[ \t]*({_NUMBER})[ \t]+({_NUMBER})[ \t]+({_NUMBER})[ \t]+({_NUMBER})[ \t]+([01])",
        _mqsim,
    ),
    _format(
        "MSR",
        rf"({_NUMBER}),([^,\s]{{1,100}}),(\d{{1,6}}),((?i:read|write)),({_NUMBER}),({_NUMBER})(?:,[\d.]*)?",
        _msr,
        r"^(?i:timestamp,.*)$",
    ),
    _format("SPC", rf"(\d{{1,6}}),({_NUMBER}),({_NUMBER}),([RrWw]),({_TIME})(?:,.*)?", _spc),
    _format(
        "vSCSI",
        rf"{_NUMBER},[ \t]*({_NUMBER}),[ \t]*{_NUMBER},[ \t]*(\d{{1,3}}),[ \t]*{_NUMBER},"
        rf"[ \t]*({_NUMBER}),[ \t]*({_NUMBER})",
        _vscsi,
        r"^(?i:sn|serial)[, ].*$",
    ),
    _format(
        "fio iolog 3",
        rf"({_TIME})[ \t]+(\S{{1,1000}})[ \t]+{_WHOLE}([a-z]{{1,16}})(?:[ \t]+({_NUMBER})[ \t]+({_NUMBER}))?",
        _iolog3,
        r"^fio version 3 iolog\r?$",
    ),
    _format(
        "fio iolog 2",
        rf"(\S{{1,1000}})[ \t]+{_WHOLE}([a-z]{{1,16}})(?:[ \t]+({_NUMBER})(?:[ \t]+({_NUMBER}))?)?",
        _iolog2,
        r"^fio version 2 iolog\r?$",
    ),
    _format(
        "blkparse",
        rf"[ \t]*(\d{{1,9}},\d{{1,9}})[ \t]+\d+[ \t]+\d+[ \t]+({_TIME})[ \t]+({_NUMBER})"
        r"[ \t]+([A-Z]{1,2})[ \t]+([A-Z]{1,8})"
        rf"(?:[ \t]+({_NUMBER})(?:[ \t]+\+[ \t]+({_NUMBER}))?)?.*",
        _blkparse,
        r"^(?:CPU\d|Total|Throughput|Events|Skips| +[A-Z][A-Za-z /.]*:).*$",
    ),
)


def trace_from_text(text: str, *, where: str) -> BlockTrace:
    """Trace of a text in one of `FORMATS`, told from its first lines.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: no known format, a line that does not fit it (names the line), or a wrong value.
    """
    found = format_of(text, where=where)
    rows = found.line.findall(text)
    notes = []
    lines = text.count("\n") + (not text.endswith("\n"))
    if len(rows) != lines:
        notes += _check_lines(text, found, where)
    if len(rows) > MAX_RECORDS:
        raise InputError(f"holds more than {MAX_RECORDS} records, the most that is read", where=where)
    if not rows:
        raise InputError(f"holds no record of the format {found.name}", where=where)
    columns: Columns = list(zip(*rows, strict=True))
    del rows
    try:
        return found.build(columns, where, notes)
    except RecordError as error:
        start = next(itertools.islice(found.line.finditer(text), error.record, None)).start()
        raise InputError(error.of_record, where=f"{where}:{text.count(chr(10), 0, start) + 1}") from error


def format_of(text: str, *, where: str) -> TraceFormat:
    """Format that most of the first lines of a text have.

    Raises:
        InputError: none has any; names the formats that are known.
    """
    head = text[:64_000].splitlines()[: SAMPLE_LINES + 1]
    if head and head[0] == OWN_HEADER:
        return FORMATS[0]
    if head and head[0].startswith("fio version "):
        for each in FORMATS:
            if each.skipped.match(head[0]):
                return each
        raise InputError("fio's log has a version other than 2 and 3", where=f"{where}:1")
    counts = [sum(each.line.match(line) is not None for line in head) for each in FORMATS]
    best = int(np.argmax(counts)) if counts else 0
    if not counts or counts[best] == 0:
        known = ", ".join(each.name for each in FORMATS)
        raise InputError(f"is a block trace of no known format; known: {known}", where=where)
    return FORMATS[best]


def _check_lines(text: str, found: TraceFormat, where: str) -> list[str]:
    """Refuse a line that is neither record nor comment; a cut last line is told in a note."""
    lines = text.split("\n")
    cut = bool(lines[-1])
    for number, line in enumerate(lines, start=1):
        if found.skipped.match(line) or found.line.match(line):
            continue
        if cut and number == len(lines):
            return ["the last line is cut and was left out"]
        form = f", {OWN_HEADER} with R or W as op" if found is FORMATS[0] else ""
        raise InputError(f"is no record of the format {found.name}{form}", where=f"{where}:{number}")
    return []
