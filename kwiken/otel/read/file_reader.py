"""Reader of trace files, OTLP, Jaeger or Zipkin JSON; the format is detected by content.

Errors name the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from kwiken.base.errors import InputError
from kwiken.otel.read.inputs import (
    IN_MEMORY,
    MAX_BYTES,
    Again,
    ByteStream,
    TraceFile,
    check_text,
    opened,
    whole,
)
from kwiken.otel.read.jaeger import JaegerReader
from kwiken.otel.read.other_formats import SNIFFED, WRONG, named
from kwiken.otel.read.otlp import OtlpReader
from kwiken.otel.read.span_store import SpanStore
from kwiken.otel.read.zipkin import as_jaeger

MAX_BLANK: Final = 100_000  # blank lines in a row
MAX_UNIT: Final = 256 << 20  # bytes of one line
_HEAD: Final = 256  # bytes at the start of a document of Jaeger that name its fields
_OF_OTHERS: Final = re.compile(rb'"(?:resourceSpans|batches|_source|traceId)"')  # than of Jaeger
_BOM: Final = b"\xef\xbb\xbf"
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_UNITS_PER_PROGRESS: Final = 256
# Lines that hold no spans: of other pipelines of a collector, and of Elasticsearch's bulk format.
_OTHER_LINES: Final = (
    *(b'{"resourceLogs"', b'{"resourceMetrics"', b'{"resourceProfiles"'),
    *(b'{"index":', b'{"create":', b'{ "index"'),
)
MAX_LINES_OF_LOG: Final = 10_000  # of a container's log, before the first with spans
_LOGGED: Final = (b'{"log":"', b'{"log": "')  # how Docker keeps a line
_OTLP: Final = b'{"resourceSpans"'
MAX_ENVELOPES: Final = 6  # objects and arrays around a document
_SEVERAL: Final = "trailing characters"  # as msgspec says it
_TRUNCATED: Final = "Input data was truncated"  # as msgspec says it
_UNFIT: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)

Progress = Callable[[int], None]
Kind = Literal["otlp", "batches", "wrapped", "data", "trace", "hits", "stored", "span", "zipkin"]
Unit = msgspec.Raw | memoryview


class _Hits(msgspec.Struct):
    hits: list[msgspec.Raw]


class _Envelope(msgspec.Struct):
    """Top-level fields of a document of any format."""

    resourceSpans: list[msgspec.Raw] | None = None  # noqa: N815 - OTLP's name
    batches: list[msgspec.Raw] | None = None  # Tempo's name for the same
    trace: msgspec.Raw = msgspec.Raw()  # a document, in Tempo's second API
    result: msgspec.Raw = msgspec.Raw()  # a document, in version 3 of Jaeger's API
    data: msgspec.Raw = msgspec.Raw()  # documents in an array, or one
    responses: msgspec.Raw = msgspec.Raw()  # answers of Elasticsearch to several searches at once
    rawResponse: msgspec.Raw = msgspec.Raw()  # noqa: N815 - an answer of Elasticsearch, as Kibana shows it
    spans: list[msgspec.Raw] | None = None
    hits: _Hits | None = None  # of an answer of Elasticsearch
    stored: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="_source")  # a document of its index
    spanID: msgspec.Raw = msgspec.Raw()  # noqa: N815 - of a span in that index
    serviceName: msgspec.Raw = msgspec.Raw()  # noqa: N815 - of a service in that index
    traceId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - Zipkin's names
    id: msgspec.Raw = msgspec.Raw()
    localEndpoint: msgspec.Raw = msgspec.Raw()  # noqa: N815
    timestamp: msgspec.Raw = msgspec.Raw()
    errors: Any = None

    @property
    def inside(self) -> msgspec.Raw:
        """Document that this one is an envelope of; empty for none."""
        envelopes = (self.trace, self.result, self.data, self.responses, self.rawResponse)
        found = (raw for raw in envelopes if _first(raw) in {b"{", b"["})
        return next(found, msgspec.Raw())

    @property
    def kind(self) -> Kind | None:
        """Kind of the document; None where it has another format."""
        inside = _first(self.inside)
        zipkin = (
            _first(self.id)
            and _first(self.traceId)
            and (_first(self.localEndpoint) or _first(self.timestamp))
        )
        kinds: tuple[tuple[Kind, object], ...] = (
            ("otlp", self.resourceSpans is not None),
            ("batches", self.batches is not None),
            ("data", inside == b"[" and self.inside is self.data),
            ("wrapped", inside),
            ("trace", self.spans is not None),
            ("hits", self.hits is not None),
            ("stored", _first(self.stored)),
            ("span", _first(self.spanID)),
            ("zipkin", zipkin),
        )
        return next((kind for kind, fits in kinds if fits), None)


def _first(raw: msgspec.Raw) -> bytes:
    """First byte of a value; empty for none. `bytes(raw)` would copy all of it."""
    return bytes(memoryview(raw)[:1])


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
            "wrapped": self._any,
            "trace": self._jaeger.trace,
            "data": self._traces,
            "hits": self._hits,
            "stored": self._stored,
            "span": self._jaeger.span,
            "zipkin": self._zipkin,
        }
        self.unfinished = 0
        self.without_time = 0
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
        source: ByteStream,
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
        plain = first.lstrip()[:1] not in (b"{", b"[") and named(first[:SNIFFED]) is None
        if first and (plain or first.startswith((*_LOGGED, b"[pod/"))):
            first = lines.next_of_log(first) or first
        opening = first.lstrip()[:1]
        if first and opening not in (b"{", b"["):
            raise InputError(_reason(lines.start or first), where=where)
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
            self._each(self._array.decode(envelope.data), self._element, lines, f"{lines.where}: data")
            line = lines.next()
        self._taken(line, take, lines, kind)

    def _taken(self, line: bytes, take: Callable[[Any], None], lines: _Lines, kind: Kind) -> None:
        """Read documents of one line each, from this line on."""
        while line:
            try:
                take(line)
            except _UNFIT as error:
                if lines.cut_off(line):
                    self.unfinished += 1
                    return
                raise InputError(_explained(error, line, kind), where=lines.where) from error
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
            other = named(bytes(document[:SNIFFED]))
            where = lines.path if other else _line_of(error, document, lines)
            raise InputError(other or f"{_problem(error)}{several}", where=where) from error
        kind = _kind(envelope, document, lines.path)
        if kind == "data":
            self._each(self._array.decode(envelope.data), self._element, lines, f"{lines.path}: data")
        elif kind == "hits":
            hits = envelope.hits.hits if envelope.hits is not None else []
            self._each(hits, self._any, lines, f"{lines.path}: hits")
        elif kind == "otlp":
            units = envelope.resourceSpans or []
            self._each(units, self._otlp.resource, lines, f"{lines.path}: resourceSpans")
        elif kind == "batches":
            self._each(envelope.batches or [], self._otlp.resource, lines, f"{lines.path}: batches")
        else:
            self._each([document], self._take[kind], lines, f"{lines.path}: {kind}")

    def _documents(self, document: memoryview, lines: _Lines) -> None:
        """Read an array of documents, each as it could stand on a line of its own, or an array a line."""
        try:
            units = self._array.decode(document)
        except _UNFIT as error:
            if _SEVERAL in str(error):
                again = _Lines(Again(document), lines.path, lines.growing, lines.progress)
                self._taken(again.next(MAX_UNIT), self._any, again, "wrapped")
                return
            if lines.cut_off(bytes(document[-1:])):
                self.unfinished += 1
                return
            raise InputError(_problem(error), where=_line_of(error, document, lines)) from error
        self._each(units, self._any, lines, f"{lines.path}: ")

    def _any(self, unit: Unit, envelopes: int = 0) -> None:
        """Read one document, or an array of them, inside of another.

        Raises:
            msgspec.MsgspecError, ValueError: the document is broken, or of another format.
        """
        if envelopes > MAX_ENVELOPES:
            raise ValueError(f"is inside of more than {MAX_ENVELOPES} other documents")
        if bytes(memoryview(unit)[:1]) == b"[":
            for number, element in enumerate(self._array.decode(unit)):
                try:
                    self._any(element, envelopes + 1)
                except _UNFIT as error:
                    raise ValueError(f"[{number}]: {error}") from error
            return
        try:
            envelope = self._envelope.decode(unit)
        except msgspec.ValidationError as error:
            raise ValueError(_reason(bytes(unit))) from error
        try:
            kind = _kind(envelope, unit, "")
        except InputError as error:
            raise ValueError(error.problem) from error
        if kind == "wrapped":
            try:
                self._any(envelope.inside, envelopes + 1)
            except ValueError as error:
                other = named(memoryview(unit)[:SNIFFED].tobytes()) if str(error).endswith(WRONG) else None
                raise ValueError(other or str(error)) from error
            return
        try:
            self._take[kind](unit)
        except msgspec.MsgspecError as error:
            raise ValueError(_explained(error, unit, kind)) from error

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
                raise InputError(_explained(error, unit, "trace"), where=f"{where}[{number}]") from error
            if number % _UNITS_PER_PROGRESS == 0:
                lines.progress()

    def _traces(self, line: bytes) -> None:
        for number, unit in enumerate(self._array.decode(self._envelope.decode(line).data)):
            try:
                self._element(unit)
            except _UNFIT as error:
                raise ValueError(f"data[{number}]: {_explained(error, unit, 'trace')}") from error

    def _element(self, unit: msgspec.Raw) -> None:
        """Read one element of an array in a field `data`: nearly always a trace of Jaeger."""
        if _OF_OTHERS.search(memoryview(unit)[:_HEAD].tobytes()):
            self._any(unit)
        else:
            self._jaeger.trace(unit)

    def _hits(self, document: Unit | bytes) -> None:
        """Read an answer of Elasticsearch; errors as `_any`."""
        found = self._envelope.decode(document).hits
        for hit in found.hits if found is not None else ():
            self._any(hit)

    def _stored(self, document: Unit | bytes) -> None:
        """Read a document of Jaeger's index in Elasticsearch; those of services hold no span."""
        stored = self._envelope.decode(document).stored
        about = self._envelope.decode(stored)
        if _first(about.spanID):
            self._jaeger.span(stored)
        elif not _first(about.serviceName):
            raise ValueError(named(bytes(memoryview(document)[:SNIFFED])) or WRONG)

    def _zipkin(self, document: Unit | bytes) -> None:
        """Read one span of Zipkin; one without a time is left out and counted."""
        span = as_jaeger(document)
        if span is None:
            self.without_time += 1
        else:
            self._jaeger.put(span)


@dataclass(slots=True)
class _Lines:
    """Lines of a stream that may hold spans, with the number of the current line.

    Blank lines are left out, and those of metrics, logs and profiles. Of a container's log, `start` are the
    first bytes, and `logged` says that lines have something around them.
    """

    source: ByteStream
    path: str
    growing: bool
    progress: Callable[[], None]
    number: int = 0
    size: int = 0
    of_other_signals: int = 0
    logged: bool = False
    start: bytes = b""

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
            if self.logged:
                line = _span_line(line)
            if line.startswith(_OTHER_LINES):
                self.of_other_signals += 1
                first = self.number + 1
            elif not line.isspace():
                return line
        return b""

    def next_of_log(self, line: bytes) -> bytes:
        """First line of a container's log that holds spans, from this line on; empty where none does.

        From then on, what a log puts around a line is taken away, and other lines are left out.
        """
        found = _span_line(line)
        self.start = b"\n" * (self.number > 1) + line[:SNIFFED]
        while found.isspace() and self.number < MAX_LINES_OF_LOG and self.size < IN_MEMORY and line:
            line = self.source.readline(IN_MEMORY)
            self.number, self.size = self.number + 1, self.size + len(line)
            if len(self.start) < SNIFFED:
                self.start += line[:SNIFFED]
            found = _span_line(line)
        self.logged = not found.isspace()
        return found if self.logged else b""

    def cut_off(self, line: bytes) -> bool:
        """True if the line is incomplete because a service is still writing it."""
        return self.growing and not line.endswith(b"\n")


def _span_line(line: bytes) -> bytes:
    """OTLP JSON in a line of a container's log; a line break where there is none."""
    if line.startswith(_LOGGED):
        try:
            line = msgspec.json.decode(line, type=dict[str, Any])["log"].encode()
        except (msgspec.MsgspecError, AttributeError, KeyError):
            return b"\n"
    at = line.find(_OTLP)
    return line[at:] if at >= 0 else b"\n"


def _kind(envelope: _Envelope, document: Unit | bytes, where: str) -> Kind:
    """Kind of a document by its top-level fields.

    Raises:
        InputError: the document has another format; says what can be done where that is known.
    """
    kind = envelope.kind
    if kind is not None:
        return kind
    if envelope.errors:
        raise InputError(f"Jaeger answered with an error: {str(envelope.errors)[:200]}", where=where)
    raise InputError(_reason(bytes(memoryview(document)[:SNIFFED])), where=where)


def _reason(start: bytes) -> str:
    """Reason why a document of another format is refused, by its first bytes."""
    return named(start) or WRONG


def _explained(error: Exception, document: Unit | bytes, kind: Kind) -> str:
    """What is wrong with a document: which other tool wrote it, or else the decoder's error."""
    other = None
    if isinstance(error, msgspec.ValidationError) and kind not in {"otlp", "batches"}:
        other = named(bytes(memoryview(document)[:SNIFFED]))
    return other or _problem(error)


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
