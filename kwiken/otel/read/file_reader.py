"""Reader of trace files, OTLP JSON or Jaeger JSON; the format is detected by content.

Errors name the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from kwiken.base.errors import InputError
from kwiken.otel.read.inputs import IN_MEMORY, MAX_BYTES, Again, Stream, TraceFile, check_text, opened, whole
from kwiken.otel.read.jaeger import JaegerReader
from kwiken.otel.read.otlp import OtlpReader
from kwiken.otel.read.span_store import SpanStore

MAX_BLANK: Final = 100_000  # blank lines in a row
MAX_UNIT: Final = 256 << 20  # bytes of one line
_BOM: Final = b"\xef\xbb\xbf"
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_UNITS_PER_PROGRESS: Final = 256
_WRONG: Final = (
    "is neither OTLP JSON (objects with `resourceSpans`, one a line) nor Jaeger JSON (an object with `data`)"
)
# What other files begin with or hold near their start, and what their owner can do.
_OTHER_STARTS: Final = (
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd; unpack it first, or compress it by gzip"),
    (b"PK\x03\x04", "is a zip archive; unpack it first"),
    (b"\xff\xfe", "is text in UTF-16; write it in UTF-8"),
    (b"\xfe\xff", "is text in UTF-16; write it in UTF-8"),
    (b"\0", "is binary, such as OTLP in protobuf; set `format: json` in the collector's file exporter"),
)
_OTHER_FIELDS: Final = (
    (
        b'"localEndpoint"',
        "is Zipkin JSON; an OpenTelemetry collector reads it and writes OTLP JSON",
    ),
    (b'"profile": "sha256:', "is a plan of kwiken, and traces are needed"),
    (
        b'"latency_ms":[',
        "is a profile of kwiken, and traces are needed; `kwiken explain` and `plan` take profiles",
    ),
    (b'"resource_spans"', "names its fields in snake_case; OTLP JSON has `resourceSpans`"),
)
_LOOKED_AT: Final = 4096  # bytes at the start of a file in which these fields are looked for
# Lines of the collector's file exporter that hold no spans, where several pipelines write one file.
_OTHER_SIGNALS: Final = (b'{"resourceLogs"', b'{"resourceMetrics"', b'{"resourceProfiles"')
_SEVERAL: Final = "trailing characters"  # as msgspec says it
_TRUNCATED: Final = "Input data was truncated"  # as msgspec says it
_UNFIT: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)

Progress = Callable[[int], None]
Kind = Literal["otlp", "batches", "wrapped", "data", "trace"]
Unit = msgspec.Raw | memoryview


class _Envelope(msgspec.Struct):
    """Top-level fields of a document of either format."""

    resourceSpans: list[msgspec.Raw] | None = None  # noqa: N815 - OTLP's name
    batches: list[msgspec.Raw] | None = None  # Tempo's name for the same
    trace: msgspec.Raw = msgspec.Raw()  # an object with `resourceSpans`, in Tempo's second API
    data: list[msgspec.Raw] | None = None
    spans: list[msgspec.Raw] | None = None
    traceID: str | None = None  # noqa: N815 - Jaeger's name
    errors: Any = None


class FileReader:
    """Reader of trace files of any supported format into a span store."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store
        self._otlp = OtlpReader(store)
        self._jaeger = JaegerReader(store)
        self._envelope = msgspec.json.Decoder(_Envelope)
        self._array = msgspec.json.Decoder(list[msgspec.Raw])
        self._take: dict[Kind, Callable[[Any], None]] = {
            "otlp": self._otlp.line,
            "batches": self._otlp.batches,
            "wrapped": self._wrapped,
            "trace": self._jaeger.trace,
            "data": self._traces,
        }
        self.unfinished = 0
        self.without_spans = 0

    def file(self, file: TraceFile, progress: Progress) -> None:
        """Read one file.

        Args:
            progress: callback, called now and then with the number of its bytes that are read.

        Raises:
            InputError: the file is broken, truncated, empty, too large or of another format; names file and
                line.
        """
        if file.size == 0 and file.growing:
            self.without_spans += 1
            return
        with opened(file.path) as (unpacked, raw):
            self.stream(unpacked, str(file.path), growing=file.growing, progress=lambda: progress(raw.tell()))

    def stream(
        self,
        source: Stream,
        where: str,
        *,
        growing: bool = False,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Read one stream; errors as in `file`, with `where` as the name."""
        before = self._store.read
        lines = _Lines(source, where, growing, progress)
        first = lines.next(IN_MEMORY)
        if not first and not lines.of_other_signals:
            raise InputError("is empty", where=where)
        opening = first.lstrip()[:1]
        if first and opening not in (b"{", b"["):
            raise InputError(_reason(first), where=where)
        envelope = self._one_line(first, where) if opening == b"{" else None
        if envelope is not None:
            self._lines(first, envelope, lines)
        elif first:
            check_text(first, lines.where)
            document = whole(first, source, where)
            del first
            if opening == b"[":
                self._documents(document, lines)
            else:
                self._document(document, lines)
        self._store.flush()
        self.without_spans += self._store.read == before

    def _one_line(self, line: bytes, where: str) -> _Envelope | None:
        """Top-level fields of a one-line document; None if the document has more lines.

        Raises:
            InputError: the document has another format.
        """
        if len(line) >= IN_MEMORY and not line.endswith(b"\n"):
            return None
        try:
            return self._envelope.decode(line)
        except (msgspec.ValidationError, RecursionError) as error:
            raise InputError(f"{_reason(line)}: {_problem(error)}", where=where) from error
        except msgspec.DecodeError:
            return None

    def _lines(self, line: bytes, envelope: _Envelope, lines: _Lines) -> None:
        """Read documents of one line each, the first of which has been read already."""
        kind = _kind(envelope, line, lines.path)
        take = self._take[kind]
        if kind == "data":
            self._each(envelope.data or [], self._jaeger.trace, lines, f"{lines.where}: data")
            line = lines.next()
        while line:
            try:
                take(line)
            except _UNFIT as error:
                if lines.cut_off(line):
                    self.unfinished += 1
                    return
                raise InputError(_problem(error), where=lines.where) from error
            line = lines.next()

    def _document(self, document: memoryview, lines: _Lines) -> None:
        """Read a document of many lines, one trace or resource at a time."""
        try:
            envelope = self._envelope.decode(document)
        except _UNFIT as error:
            if self._lines_after_all(document, lines):
                return
            if lines.cut_off(bytes(document[-1:])):
                self.unfinished += 1
                return
            several = (
                "; several documents stand one on a line, or in one array" if _SEVERAL in str(error) else ""
            )
            raise InputError(f"{_problem(error)}{several}", where=_line_of(error, document, lines)) from error
        kind = _kind(envelope, document, lines.path)
        if kind == "data":
            self._each(envelope.data or [], self._jaeger.trace, lines, f"{lines.path}: data")
        elif kind == "otlp":
            units = envelope.resourceSpans or []
            self._each(units, self._otlp.resource, lines, f"{lines.path}: resourceSpans")
        elif kind == "batches":
            self._each(envelope.batches or [], self._otlp.resource, lines, f"{lines.path}: batches")
        else:
            self._each([document], self._take[kind], lines, f"{lines.path}: trace")

    def _documents(self, document: memoryview, lines: _Lines) -> None:
        """Read an array of documents, each as it could stand on a line of its own."""
        try:
            units = self._array.decode(document)
        except _UNFIT as error:
            if lines.cut_off(bytes(document[-1:])):
                self.unfinished += 1
                return
            raise InputError(_problem(error), where=_line_of(error, document, lines)) from error
        self._each(units, self._any, lines, f"{lines.path}: ")

    def _any(self, unit: msgspec.Raw) -> None:
        """Read one document of an array.

        Raises:
            msgspec.MsgspecError, ValueError: the document is broken, or of another format.
        """
        try:
            envelope = self._envelope.decode(unit)
        except msgspec.ValidationError as error:
            raise ValueError(_reason(bytes(unit))) from error
        try:
            kind = _kind(envelope, unit, "")
        except InputError as error:
            raise ValueError(error.problem) from error
        self._take[kind](unit)

    def _lines_after_all(self, document: memoryview, lines: _Lines) -> bool:
        """Read one-line documents of which the first is very long; False if the document is not that."""
        again = _Lines(Again(document), lines.path, lines.growing, lines.progress)
        first = again.next(MAX_UNIT)
        envelope = self._one_line(first, lines.path) if len(first) < len(document) else None
        if envelope is not None:
            self._lines(first, envelope, again)
        return envelope is not None

    def _each(self, units: Sequence[Unit], take: Callable[[Any], None], lines: _Lines, where: str) -> None:
        for number, unit in enumerate(units):
            try:
                take(unit)
            except _UNFIT as error:
                raise InputError(_problem(error), where=f"{where}[{number}]") from error
            if number % _UNITS_PER_PROGRESS == 0:
                lines.progress()

    def _traces(self, line: bytes) -> None:
        for number, trace in enumerate(self._envelope.decode(line).data or []):
            try:
                self._jaeger.trace(trace)
            except _UNFIT as error:
                raise ValueError(f"data[{number}]: {error}") from error

    def _wrapped(self, document: Unit | bytes) -> None:
        """Read an object whose field `trace` is OTLP JSON; errors as `OtlpReader.line`."""
        self._otlp.line(self._envelope.decode(document).trace)


@dataclass(slots=True)
class _Lines:
    """Lines of a stream that may hold spans, with the number of the current line.

    Blank lines are left out, and those of metrics, logs and profiles.
    """

    source: Stream
    path: str
    growing: bool
    progress: Callable[[], None]
    number: int = 0
    size: int = 0
    of_other_signals: int = 0

    @property
    def where(self) -> str:
        return f"{self.path}:{self.number}"

    def next(self, most: int | None = None) -> bytes:
        """Next line that may hold spans; empty at the end.

        Args:
            most: maximal number of bytes to read; None for the whole line, or an error if it is too long.
        """
        first = self.number + 1
        while line := self.source.readline(MAX_UNIT if most is None else most):
            self.number += 1
            if self.number - first >= MAX_BLANK:
                raise InputError(
                    f"from this line on, more than {MAX_BLANK:,} are blank", where=f"{self.path}:{first}"
                )
            self.size += len(line)
            if self.size > MAX_BYTES:
                raise InputError(
                    f"is larger than {MAX_BYTES >> 20} MiB, the most that is read", where=self.path
                )
            if self.number == 1:
                line = line.removeprefix(_BOM)
            if most is None and len(line) >= MAX_UNIT:
                raise InputError(f"is longer than {MAX_UNIT >> 20} MiB", where=self.where)
            if self.number % _UNITS_PER_PROGRESS == 0:
                self.progress()
            if line.startswith(_OTHER_SIGNALS):
                self.of_other_signals += 1
                first = self.number + 1
            elif not line.isspace():
                return line
        return b""

    def cut_off(self, line: bytes) -> bool:
        """True if the line is incomplete because a service is still writing it."""
        return self.growing and not line.endswith(b"\n")


def _kind(envelope: _Envelope, document: Unit | bytes, where: str) -> Kind:
    """Kind of a document by its top-level fields.

    Raises:
        InputError: the document has another format; says what can be done where that is known.
    """
    if envelope.resourceSpans is not None:
        return "otlp"
    if envelope.batches is not None:
        return "batches"
    if bytes(envelope.trace):
        return "wrapped"
    if envelope.data is not None:
        return "data"
    if envelope.spans is not None:
        return "trace"
    if envelope.errors:
        raise InputError(f"Jaeger answered with an error: {str(envelope.errors)[:200]}", where=where)
    raise InputError(_reason(bytes(memoryview(document)[:_LOOKED_AT])), where=where)


def _reason(start: bytes) -> str:
    """Reason why a document of another format is refused, by its first bytes."""
    for mark, reason in _OTHER_STARTS:
        if start.startswith(mark):
            return reason
    for field, reason in _OTHER_FIELDS:
        if field in start[:_LOOKED_AT]:
            return reason
    return _WRONG


def _problem(error: Exception) -> str:
    """What is wrong with a document, by the decoder's error."""
    if isinstance(error, RecursionError):
        return "is nested too deep"
    told = str(error)
    return f"{told}: the document has no end; copy or download it again" if told == _TRUNCATED else told


def _line_of(error: Exception, document: memoryview, lines: _Lines) -> str:
    """File and line of an error, from the byte that msgspec names; without one, the last line."""
    place = _BYTE.search(str(error))
    end = int(place.group(1)) if place is not None else len(document)
    chunks = range(0, end, 1 << 20)
    breaks = sum(bytes(document[at : min(end, at + (1 << 20))]).count(b"\n") for at in chunks)
    return f"{lines.path}:{lines.number + breaks}"
