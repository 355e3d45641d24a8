"""Reader of our own gateway's traces, back into request records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import NO_TEXT, Ints
from kwiken.otel.read.kw_attributes import KINDS, OUTCOMES
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.requests import roles
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord

_KINDS = {number: AttemptKind(kind) for kind, number in KINDS.items()}
_OUTCOMES = {number: Outcome(outcome) for outcome, number in OUTCOMES.items()}
FAILED = "failed"  # the reader keeps that a span failed, not its message


def read_requests(
    paths: Iterable[str | Path], *, wanted: Callable[[int], bool] | None = None
) -> Iterator[RequestRecord]:
    """Read the requests in traces of our own runtime, in order of their start; other spans are skipped.

    Times are as written. The text of an error is lost: it is `failed` in every record.

    Args:
        paths: files, folders and addresses, as `fit_profile` takes them.
        wanted: filter by trace id (128 bits); None for all.

    Raises:
        InputError: as `fit_profile` for paths that cannot be read; an incomplete last line is skipped.
    """
    return requests_in(read_forest(paths), wanted=wanted)


def requests_in(forest: Forest, *, wanted: Callable[[int], bool] | None = None) -> Iterator[RequestRecord]:
    """Find the requests in traces that were read before; see `read_requests`.

    Args:
        wanted: filter by trace id (128 bits); None for all.
    """
    role = roles(forest)
    tops = np.flatnonzero(role == c.REQUEST)
    tops = tops[np.argsort(forest.spans["start"][tops], kind="stable")]
    stages = _children(forest, role == c.STAGE)
    attempts = _children(forest, role == c.ATTEMPT)
    reader = _Reader(forest)
    for row in tops.tolist():
        number = reader.trace(row)
        if wanted is None or wanted(number):
            yield reader.request(row, number, stages.get(row, []), attempts)


Children = dict[int, list[int]]


def _children(forest: Forest, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Children:
    """Rows of each parent's children of one role, in order of their start."""
    rows: Ints = np.flatnonzero(which & (forest.parent >= 0))
    rows = rows[np.argsort(forest.spans["start"][rows], kind="stable")]
    found: Children = {}
    for row, parent in zip(rows.tolist(), forest.parent[rows].tolist(), strict=True):
        found.setdefault(parent, []).append(row)
    return found


class _Reader:
    """Converter of a forest's rows to records."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._all_links = forest.links[np.argsort(forest.links["own"], kind="stable")]

    def trace(self, row: int) -> int:
        """Id of a span's trace, 128 bits."""
        span = self.forest.spans[row]
        return int(span["hi"]) << 64 | int(span["lo"])

    def request(self, row: int, number: int, visits: list[int], attempts: Children) -> RequestRecord:
        """Record of a request with all stages and attempts."""
        span, note = self._row(row)
        spans = [self._row(visit) for visit in visits]
        named = {int(visit["span"]): self._text(told, "stage") for visit, told in spans}
        return RequestRecord(
            trace_id=number,
            span_id=int(span["span"]),
            parent_span_id=int(span["parent"]) or None,
            service=self._text(note, "service"),
            start_ns=int(span["start"]),
            end_ns=int(span["end"]),
            plan=self._text(note, "plan") or None,
            control=bool(note["marks"] & c.CONTROL),
            error=_error(span),
            stages=[self._stage(visit, named, attempts.get(visit, [])) for visit in visits],
        )

    def _stage(self, row: int, named: dict[int, str], attempts: list[int]) -> StageRecord:
        span, note = self._row(row)
        return StageRecord(
            span_id=int(span["span"]),
            name=self._text(note, "stage"),
            after=tuple(named[link] for link in self._links(int(span["own"])) if link in named),
            fanout=int(note["fanout"]),
            start_ns=int(span["start"]),
            end_ns=int(span["end"]),
            error=_error(span),
            partial=bool(note["marks"] & c.PARTIAL),
            utility=float(note["utility"]),
            attempts=[self._attempt(attempt) for attempt in attempts],
            idempotent=not note["marks"] & c.NOT_IDEMPOTENT,
            threads=int(note["threads"]),
        )

    def _attempt(self, row: int) -> AttemptRecord:
        span, note = self._row(row)
        return AttemptRecord(
            span_id=int(span["span"]),
            shard=int(note["shard"]),
            attempt=int(note["attempt"]),
            kind=_KINDS[int(note["kind"])],
            replica=self._text(note, "replica"),
            node=self._text(note, "node"),
            start_ns=int(span["start"]),
            end_ns=int(span["end"]),
            outcome=_OUTCOMES[int(note["outcome"])],
            busy_ms=_known(note["busy_ms"]),
            error=_error(span),
            threads=int(note["threads"]),
            catch_up=bool(note["marks"] & c.CATCH_UP),
            worth=_known(note["worth"]),
        )

    def _row(self, row: int) -> tuple[Any, Any]:
        span = self.forest.spans[row]
        return span, self.forest.owns[int(span["own"])]

    def _links(self, own: int) -> list[int]:
        low, high = np.searchsorted(self._all_links["own"], (own, own + 1))
        return [int(span) for span in self._all_links["span"][low:high]]

    def _text(self, note: Any, key: str) -> str:
        return "" if note[key] == NO_TEXT else self.forest.names.texts[int(note[key])]


def _error(span: Any) -> str | None:
    return FAILED if span["flags"] & c.ERROR else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
