"""Statistics of a load run: counts, rates, latency percentiles and time windows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kwiken.loadtest.results.outcome import DROPPED, RequestOutcome

Floats = NDArray[np.float64]

PERCENTILES = (
    ("p50_ms", 0.50),
    ("p75_ms", 0.75),
    ("p90_ms", 0.90),
    ("p95_ms", 0.95),
    ("p99_ms", 0.99),
    ("p999_ms", 0.999),
)
_OK, _FAILED, _DROPPED = 0, 1, 2
_MAX_REASONS = 50
_MAX_WINDOWS = 120
_WINDOW_WIDTHS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)


class ReportCollector:
    """Columns of all outcomes, 43 bytes each, so that percentiles are exact for any part of the run."""

    def __init__(self) -> None:
        self._intended = array("d")
        self._lag = array("d")
        self._latency = array("d")
        self._status = array("i")
        self._fate = array("b")
        self._utility = array("f")
        self._first_item = array("d")
        self._longest_gap = array("d")
        self._reasons: dict[str, int] = {}
        self._why = array("h")

    def __len__(self) -> int:
        return len(self._intended)

    def add(self, outcome: RequestOutcome) -> None:
        """Add one outcome."""
        error = outcome.error
        self._intended.append(outcome.intended_s)
        self._lag.append(outcome.start_lag_ms)
        self._latency.append(outcome.latency_ms)
        self._status.append(outcome.status)
        self._utility.append(outcome.utility)
        self._first_item.append(outcome.first_item_ms)
        self._longest_gap.append(outcome.longest_gap_ms)
        self._fate.append(_OK if error is None else _DROPPED if error == DROPPED else _FAILED)
        self._why.append(-1 if error is None else self._reason(error))

    def _reason(self, error: str) -> int:
        """Number of a reason; beyond 50 they share one, so that varied errors cannot fill the memory."""
        if error not in self._reasons and len(self._reasons) >= _MAX_REASONS:
            error = "other"
        return self._reasons.setdefault(error, len(self._reasons))

    def report(self, *, duration_s: float, warmup_s: float, late_ms: float) -> LoadReport:
        """Statistics over the requests that were due in [warmup_s, duration_s).

        Args:
            duration_s: time during which requests started, seconds.
            warmup_s: requests that were due before this time do not count, seconds.
            late_ms: start lag above which a request counts as late, milliseconds.
        """
        intended = np.asarray(self._intended)
        order = np.argsort(intended, kind="stable")
        counted = order[intended[order] >= warmup_s]
        rows = _Rows(
            intended=intended[counted],
            lag=np.asarray(self._lag)[counted],
            latency=np.asarray(self._latency)[counted],
            status=np.asarray(self._status)[counted],
            fate=np.asarray(self._fate)[counted],
            why=np.asarray(self._why)[counted],
            utility=np.asarray(self._utility)[counted],
            first_item=np.asarray(self._first_item)[counted],
        )
        gaps = np.asarray(self._longest_gap)[counted]
        gaps = gaps[(rows.fate == _OK) & ~np.isnan(gaps)]
        streamed = (rows.fate == _OK) & ~np.isnan(rows.first_item)
        return LoadReport(
            duration_s=duration_s,
            warmup_s=warmup_s,
            warmup_requests=len(intended) - len(counted),
            requests=_counts(rows, late_ms),
            rate=_rates(rows, duration_s - warmup_s),
            status=_tally(rows.status[rows.status > 0], str),
            errors=_tally(rows.why[rows.why >= 0], list(self._reasons).__getitem__),
            utility=_utility(rows),
            latency=ladder(rows.latency[rows.fate == _OK]),
            first_item=ladder(rows.first_item[streamed]) if streamed.any() else None,
            first_item_with_failures=(
                ladder(np.where(streamed, rows.first_item, math.inf)) if streamed.any() else None
            ),
            longest_gap=ladder(gaps) if len(gaps) else None,
            latency_with_failures=ladder(np.where(rows.fate == _OK, rows.latency, math.inf)),
            start_lag=ladder(rows.lag[rows.fate != _DROPPED]),
            windows=_windows(rows, warmup_s, duration_s, late_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """Statistics of a run, without its warm-up but for the two warm-up fields.

    Attributes:
        duration_s: time during which requests started, warm-up included, seconds.
        warmup_s: length of the warm-up, seconds.
        warmup_requests: number of requests that were due during the warm-up.
        requests: `intended` = `ok` + `failed` + `dropped`; `partial` of the ok ones stated a utility
            below 1; `late` started later than the limit.
        rate: `intended` and `ok` per second.
        errors: number of failures by reason, drops included.
        utility: mean utility of the ok answers, from 0 to 1; None if there were none.
        latency: percentiles, mean, minimum and maximum of the ok answers, milliseconds from the intended
            start.
        first_item: the same up to the first item of answers that stream; None if none does.
        first_item_with_failures: as `latency_with_failures`, to the first item; None if no answer streams.
        longest_gap: the same of the longest wait between two items of each answer that streams; None if none
            does.
        latency_with_failures: the same over all intended requests; a failed or dropped request counts as
            infinitely late, and a percentile that falls on one is None.
        start_lag: the same of the delay from intended to actual start, milliseconds; the generator's own
            error.
        windows: counts and latencies by time window, about 120 at most.
    """

    duration_s: float
    warmup_s: float
    warmup_requests: int
    requests: dict[str, int]
    rate: dict[str, float]
    status: dict[str, int]
    errors: dict[str, int]
    utility: float | None
    latency: dict[str, float | None]
    first_item: dict[str, float | None] | None
    first_item_with_failures: dict[str, float | None] | None
    longest_gap: dict[str, float | None] | None
    latency_with_failures: dict[str, float | None]
    start_lag: dict[str, float | None]
    windows: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and None; no NaN, no infinity."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Columns of the counted requests, by intended start."""

    intended: Floats
    lag: Floats
    latency: Floats
    status: NDArray[Any]
    fate: NDArray[Any]
    why: NDArray[Any]
    utility: NDArray[Any]
    first_item: Floats

    def cut(self, low: int, high: int) -> _Rows:
        return _Rows(**{name: getattr(self, name)[low:high] for name in self.__slots__})


def ladder(values: Floats) -> dict[str, float | None]:
    """Nearest-rank percentiles, mean, minimum and maximum, milliseconds; None without a finite value."""
    if not len(values):
        return dict.fromkeys((*(name for name, _ in PERCENTILES), "mean_ms", "min_ms", "max_ms"))
    # "inverted_cdf" takes a value that occurred: interpolating towards infinity has no meaning.
    points = np.quantile(values, [share for _, share in PERCENTILES], method="inverted_cdf")
    named = dict(zip((name for name, _ in PERCENTILES), points, strict=True))
    named |= {"mean_ms": values.mean(), "min_ms": values.min(), "max_ms": values.max()}
    return {name: round(float(value), 4) if math.isfinite(value) else None for name, value in named.items()}


def _counts(rows: _Rows, late_ms: float) -> dict[str, int]:
    fates = np.bincount(rows.fate, minlength=3)
    return {
        "intended": len(rows.fate),
        "ok": int(fates[_OK]),
        "failed": int(fates[_FAILED]),
        "dropped": int(fates[_DROPPED]),
        "partial": int(np.count_nonzero((rows.fate == _OK) & (rows.utility < 1))),
        "late": int(np.count_nonzero(rows.lag > late_ms)),  # False for NaN, the lag of a dropped request
    }


def _utility(rows: _Rows) -> float | None:
    answered = rows.utility[rows.fate == _OK]
    return round(float(answered.mean(dtype=np.float64)), 6) if len(answered) else None


def _rates(rows: _Rows, seconds: float) -> dict[str, float]:
    if seconds <= 0:  # interrupted during the warm-up
        return {"intended": 0.0, "ok": 0.0}
    return {
        "intended": round(len(rows.fate) / seconds, 3),
        "ok": round(int(np.count_nonzero(rows.fate == _OK)) / seconds, 3),
    }


def _tally(values: NDArray[Any], name: Callable[[int], str]) -> dict[str, int]:
    return {
        name(int(value)): int(count)
        for value, count in zip(*np.unique(values, return_counts=True), strict=True)
    }


def _windows(rows: _Rows, start_s: float, end_s: float, late_ms: float) -> list[dict[str, Any]]:
    width = next(
        (width for width in _WINDOW_WIDTHS_S if (end_s - start_s) / width <= _MAX_WINDOWS),
        _WINDOW_WIDTHS_S[-1],
    )
    edges = np.arange(start_s, end_s, width)
    bounds = [*np.searchsorted(rows.intended, edges).tolist(), len(rows.intended)]
    windows = []
    for edge, low, high in zip(edges.tolist(), bounds, bounds[1:], strict=False):
        part = rows.cut(low, high)
        points = ladder(part.latency[part.fate == _OK])
        window = {
            "start_s": round(edge, 3),
            "seconds": round(min(width, end_s - edge), 3),
            **_counts(part, late_ms),
        }
        windows.append(window | {name: points[name] for name in ("p50_ms", "p99_ms", "max_ms")})
    return windows
