"""Sequence of single request traces, for drawing them and for their critical paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import NO_TEXT, Ints
from kwiken.otel.read.kw_attributes import KINDS, OUTCOMES
from kwiken.otel.trace.forest import DETACHED, Forest
from kwiken.otel.trace.load import Progress, read_forest
from kwiken.otel.trace.requests import Requests, choose
from kwiken.otel.write.records import AttemptKind, Outcome

_KINDS = {number: AttemptKind(kind) for kind, number in KINDS.items()}
_OUTCOMES = {number: Outcome(outcome) for outcome, number in OUTCOMES.items()}


@dataclass(frozen=True, slots=True)
class OwnMarks:
    """Attributes of a span of our own runtime; None for an attribute that is not stated.

    Attributes:
        shard: number of the shard, from 0.
        attempt: number of the attempt within its call, from 0.
        node: name of the machine that the replica runs on.
    """

    stage: str | None = None
    shard: int | None = None
    attempt: int | None = None
    kind: AttemptKind | None = None
    outcome: Outcome | None = None
    replica: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span of a request.

    Attributes:
        span_id: id of the span, 16 hex digits.
        parent: index of the parent among the trace's spans; None for the request itself.
        start_ms: cleaned start, milliseconds from the start of the request.
        end_ms: cleaned end, milliseconds from the start of the request.
        error: True if the span states that it failed.
        waited: True if the request can have waited for it: the span is not outside its parent's time, and is
            no attempt that lost.
        own: attributes of our own runtime; None for a span of another tracer.
    """

    span_id: str
    parent: int | None
    service: str
    operation: str
    start_ms: float
    end_ms: float
    error: bool
    waited: bool
    own: OwnMarks | None = None

    @property
    def label(self) -> str:
        """`service:operation`."""
        return f"{self.service}:{self.operation}"


@dataclass(frozen=True, slots=True)
class Trace:
    """One request.

    Attributes:
        trace_id: id of the trace, 32 hex digits, or 16 for a trace with a short id.
        started_s: start of the request, seconds since 1970.
        spans: spans of the request, itself first, and parents before children.
    """

    trace_id: str
    started_s: float
    spans: tuple[TraceSpan, ...]

    @property
    def latency_ms(self) -> float:
        """Latency of the whole request, milliseconds."""
        return self.spans[0].end_ms


class Traces(Sequence[Trace]):
    """Sequence of request traces in order of their start; each is built on access. Made by `read_traces`.

    Args:
        forest: forest of the spans of all traces.

    Attributes:
        latency_ms: (n,) latencies of whole requests, milliseconds.
        started_s: (n,) starts of the requests, seconds since 1970.
        counts: number of spans and requests read and left out, by kind.
    """

    def __init__(self, forest: Forest, requests: Requests) -> None:
        self._forest = forest
        self._rows = requests.rows
        start, end = forest.start[requests.rows], forest.end[requests.rows]
        self.latency_ms: NDArray[np.float64] = (end - start) / 1e6
        self.started_s: NDArray[np.float64] = start / 1e9
        self.counts: Mapping[str, int] = dict(forest.counts)
        owner = forest.owners(requests.rows)
        order = np.lexsort((forest.start, forest.depth, owner))
        self._members = order[np.searchsorted(owner[order], 0) :]
        self._firsts = np.searchsorted(owner[self._members], np.arange(len(self._rows) + 1))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Trace:  # type: ignore[override]  # slices are not offered
        """Trace at this index; IndexError past the end."""
        place = range(len(self))[index]
        rows = self._members[self._firsts[place] : self._firsts[place + 1]]
        return _trace(self._forest, rows)

    def __iter__(self) -> Iterator[Trace]:
        return (self[i] for i in range(len(self)))

    def slowest(self, number: int = 1) -> list[Trace]:
        """Traces of the `number` slowest requests, the slowest first."""
        order = np.argsort(-self.latency_ms, kind="stable")
        return [self[i] for i in order[:number].tolist()]


def read_traces(
    paths: Iterable[str | Path],
    *,
    root: str | None = None,
    service: str | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    on_progress: Progress | None = None,
    max_spans: int | None = None,
) -> Traces:
    """Read single requests.

    Args:
        paths: files, folders or addresses, as `fit_profile` takes them.
        root: `operation` or `service:operation` of the requests; None for the most frequent root of a trace.
        service: service of the requests; None for any.
        since_s: time from which requests count, seconds since 1970; None for all.
        until_s: time before which requests count, seconds since 1970; None for all.
        on_progress: callback with the number of bytes read and their total.
        max_spans: maximal number of spans held; of more, a uniform sample of whole traces is kept. None for
            as many as half of the memory that this process may use holds, at most 4 million.

    Raises:
        InputError: as `fit_profile`.
    """
    forest = read_forest(paths, on_progress=on_progress, max_spans=max_spans)
    return Traces(forest, choose(forest, root=root, service=service, since_s=since_s, until_s=until_s))


def _trace(forest: Forest, rows: Ints) -> Trace:
    top = forest.spans[rows[0]]
    high, low = int(top["hi"]), int(top["lo"])
    places = {row: place for place, row in enumerate(rows.tolist())}
    zero = int(forest.start[rows[0]])
    return Trace(
        trace_id=f"{high:016x}{low:016x}" if high else f"{low:016x}",
        started_s=zero / 1e9,
        spans=tuple(_span(forest, row, places, zero) for row in rows.tolist()),
    )


def _span(forest: Forest, row: int, places: Mapping[int, int], zero: int) -> TraceSpan:
    span = forest.spans[row]
    service, operation = forest.names.operations[int(span["op"])]
    own = _marks(forest, int(span["own"]))
    loser = own is not None and own.outcome in {Outcome.LOST, Outcome.CANCELLED}
    return TraceSpan(
        span_id=f"{int(span['span']):016x}",
        parent=places.get(int(forest.parent[row])),
        service=service,
        operation=operation,
        start_ms=(int(forest.start[row]) - zero) / 1e6,
        end_ms=(int(forest.end[row]) - zero) / 1e6,
        error=bool(span["flags"] & c.ERROR),
        waited=not (int(forest.state[row]) & DETACHED or loser),
        own=own,
    )


def _marks(forest: Forest, place: int) -> OwnMarks | None:
    if place < 0:
        return None
    note = forest.owns[place]
    attempt = note["role"] == c.ATTEMPT
    called = attempt or note["role"] == c.SERVED

    def text(key: str) -> str | None:
        return None if note[key] == NO_TEXT else forest.names.texts[int(note[key])]

    return OwnMarks(
        stage=text("stage"),
        shard=int(note["shard"]) if called else None,
        attempt=int(note["attempt"]) if attempt else None,
        kind=_KINDS.get(int(note["kind"])),
        outcome=_OUTCOMES.get(int(note["outcome"])),
        replica=text("replica"),
        node=text("node"),
    )
