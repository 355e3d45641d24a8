"""Slow requests: keeps the last requests that were among the slowest, failed, or were answered in part.

A request is slow beyond the 95th percentile of the requests before. Pure.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any, Final

from kwiken.otel.write.records import RequestRecord
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.engine.timing import timing_of

MAX_KEPT: Final = 24
MAX_ATTEMPTS: Final = 120  # of one request in its document: those that ended last
SLOW_QUANTILE: Final = 0.95
MIN_REQUESTS: Final = 20  # before the first request counts as slow
RELEARN_AFTER: Final = 10_000  # requests after which the percentile is learned anew, since load changes
NS_PER_S: Final = 1e9


class SlowRequestTable:
    """Observer of requests that keeps the last notable ones, each numbered."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, str, RequestRecord]] = deque(maxlen=MAX_KEPT)
        self._number = 0
        self._known = LatencyHistogram()
        self._limit_s = inf

    def request_finished(self, record: RequestRecord) -> None:
        """Keep a record if the request was slow, failed, or lacks a part of its answer."""
        took_s = (record.end_ns - record.start_ns) / NS_PER_S
        if record.error is not None:
            self._keep("failed", record)
            return
        if any(stage.partial for stage in record.stages):
            self._keep("partial", record)
        elif took_s > self._limit_s:
            self._keep("slow", record)
        known = self._known
        known.add(took_s)
        if known.count % MIN_REQUESTS == 0:
            self._limit_s = known.quantile(SLOW_QUANTILE) or inf
        if known.count >= RELEARN_AFTER:
            self._known = LatencyHistogram()

    def _keep(self, why: str, record: RequestRecord) -> None:
        self._number += 1
        self._kept.append((self._number, why, record))

    def after(self, number: int) -> list[dict[str, Any]]:
        """Kept requests with a higher number, oldest first.

        Returns:
            For each request its `number`, `why` it was kept (`slow`, `failed`, `partial`), `at_s` (seconds
            since 1970), `error`, its timing, and as `left_out` the number of attempts that are not in it.
        """
        return [_document(*kept) for kept in self._kept if kept[0] > number]


def _document(number: int, why: str, record: RequestRecord) -> dict[str, Any]:
    timing = timing_of(record)
    spans = timing["spans"]
    last = sorted(spans, key=lambda span: float(span["end_ms"]))[-MAX_ATTEMPTS:]
    return {
        "number": number,
        "why": why,
        "at_s": record.start_ns / NS_PER_S,
        "error": record.error,
        **timing,
        "spans": sorted(last, key=lambda span: float(span["start_ms"])),
        "left_out": len(spans) - len(last),
    }
