"""Statistics of a run: what was intended, what came of it, how long it took."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kwiken.loadtest.outcome import DROPPED, Outcome

Floats = NDArray[np.float64]

LADDER = (
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
_WIDTHS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)


class Collector:
    """Keeps 35 bytes of each outcome, so that percentiles are exact and can be cut by time afterwards."""

    def __init__(self) -> None:
        self._intended = array("d")
        self._lag = array("d")
        self._latency = array("d")
        self._status = array("i")
        self._fate = array("b")
        self._utility = array("f")
        self._reasons: dict[str, int] = {}
        self._why = array("h")

    def __len__(self) -> int:
        return len(self._intended)

    def add(self, outcome: Outcome) -> None:
        """Note one outcome."""
        error = outcome.error
        self._intended.append(outcome.intended_s)
        self._lag.append(outcome.start_lag_ms)
        self._latency.append(outcome.latency_ms)
        self._status.append(outcome.status)
        self._utility.append(outcome.utility)
        self._fate.append(_OK if error is None else _DROPPED if error == DROPPED else _FAILED)
        self._why.append(-1 if error is None else self._reason(error))

    def _reason(self, error: str) -> int:
        """The number of a reason; beyond 50 they share one, so that odd errors cannot fill the memory."""
        if error not in self._reasons and len(self._reasons) >= _MAX_REASONS:
            error = "other"
        return self._reasons.setdefault(error, len(self._reasons))

    def report(self, *, duration_s: float, warmup_s: float, late_ms: float) -> LoadReport:
        """Statistics over the requests that were due in [warmup_s, duration_s).

        Args:
            duration_s: how long requests started.
            warmup_s: those due before do not count.
            late_ms: a start later than this counts as late.
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
        )
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
            latency_with_failures=ladder(np.where(rows.fate == _OK, rows.latency, math.inf)),
            start_lag=ladder(rows.lag[rows.fate != _DROPPED]),
            windows=_windows(rows, warmup_s, duration_s, late_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What a run showed; all but the warm-up counts is cut of the warm-up.

    Attributes:
        duration_s: how long requests started, the warm-up included.
        warmup_s: how much of that was warm-up.
        warmup_requests: how many were due in it.
        requests: `intended` = `ok` + `failed` + `dropped`; `partial` of the ok ones said that they are not
            whole; `late` started later than the bound.
        rate: `intended` and `ok` per second.
        status: answers by HTTP status.
        errors: failures by reason, drops included.
        utility: mean of what the answers that were ok say that they are worth, from 0 to 1; None where there
            were none.
        latency: ladder of the answers that were ok, milliseconds from the intended start.
        latency_with_failures: the same over all intended requests, where one that failed or was dropped never
            ends: null wherever the percentile is such a request.
        start_lag: ladder of how many milliseconds later than intended requests were sent: the generator's own
            fault.
        windows: the same by time, at most about 120.
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

    def cut(self, low: int, high: int) -> _Rows:
        return _Rows(**{name: getattr(self, name)[low:high] for name in self.__slots__})


def ladder(values: Floats) -> dict[str, float | None]:
    """Nearest-rank percentiles, mean, least and most, milliseconds; None: there is none or it never ends."""
    if not len(values):
        return dict.fromkeys((*(name for name, _ in LADDER), "mean_ms", "min_ms", "max_ms"))
    # "inverted_cdf" takes a value that occurred: halfway to a request that never ended has no meaning.
    points = np.quantile(values, [share for _, share in LADDER], method="inverted_cdf")
    named = dict(zip((name for name, _ in LADDER), points, strict=True))
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
        "late": int(np.count_nonzero(rows.lag > late_ms)),  # NaN, the lag of a drop, is not
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
    width = next((width for width in _WIDTHS if (end_s - start_s) / width <= _MAX_WINDOWS), _WIDTHS[-1])
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
