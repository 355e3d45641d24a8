"""Heat map of latency by replica and time (Kwiken Figure 5.2)."""

from __future__ import annotations

import msgspec
import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile, StageProfile

DEFAULT_COLUMNS = 60  # intervals of time
SLOW_QUANTILE = 0.95  # quantile shown
ALL_REPLICAS = "all replicas"


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """Heat map of one stage: its calls by replica and interval of time.

    A slow row is a faulty machine, a slow column a slow period of the whole stage, a slope a rolling upgrade.

    Attributes:
        replicas: names of the rows; one row for all where the traces do not name replicas.
        edges_s: ends of the intervals, seconds since 1970; one more than there are columns.
        slow_ms: by replica and interval: 95th percentile of the calls' latencies, milliseconds; None where
            there were no calls.
        typical_ms: median of all of the stage's calls, milliseconds.
    """

    stage: str
    replicas: tuple[str, ...]
    edges_s: tuple[float, ...]
    slow_ms: tuple[tuple[float | None, ...], ...]
    typical_ms: float

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the rows: a replica's name, with the stage's before it unless it begins with that."""
        return tuple(
            name if name != ALL_REPLICAS and name.startswith(self.stage) else f"{self.stage} {name}"
            for name in self.replicas
        )


def heat_maps(profile: Profile, *, columns: int = DEFAULT_COLUMNS) -> tuple[Heat, ...]:
    """Heat map of every stage that was called, except a request's own time (Kwiken Figure 5.2).

    A call stands in the interval in which its request started. Its latency is that without copies; that of a
    cancelled call is the time until it was cancelled.

    Args:
        columns: number of intervals of equal length, 1 or more.

    Raises:
        InputError: for a profile without requests, or fewer than one column.
    """
    if columns < 1:
        raise InputError(f"must be 1 or more, not {columns}", where="columns")
    if not profile.requests:
        raise InputError("the profile has no requests", where="profile")
    first, last = float(profile.started_s.min()), float(profile.started_s.max())
    edges = np.linspace(first, last if last > first else first + 1.0, columns + 1)
    stretch = np.clip(np.searchsorted(edges, profile.started_s, side="right") - 1, 0, columns - 1)
    return tuple(
        _heat(stage, stretch, edges)
        for stage in profile.stages
        if not stage.own_time and not np.isnan(stage.calls_ms).all()
    )


def _heat(stage: StageProfile, stretch: np.ndarray[tuple[int], np.dtype[np.int64]], edges: Floats) -> Heat:
    asked = stage.asked if stage.asked is not None else np.zeros(stage.calls_ms.shape, dtype=np.int64)
    names = stage.replica_names if stage.asked is not None else (ALL_REPLICAS,)
    there = ~np.isnan(stage.calls_ms) & (asked >= 0)
    columns = len(edges) - 1
    cell = (asked.astype(np.int64) * columns + stretch[:, None])[there]
    found = _quantiles(cell, stage.calls_ms[there], len(names) * columns).reshape(len(names), columns)
    return Heat(
        stage=stage.name,
        replicas=tuple(names),
        edges_s=tuple(edges.tolist()),
        slow_ms=tuple(tuple(None if np.isnan(value) else value for value in row) for row in found.tolist()),
        typical_ms=float(np.nanmedian(stage.calls_ms)),
    )


def _quantiles(cell: np.ndarray[tuple[int], np.dtype[np.int64]], latency_ms: Floats, cells: int) -> Floats:
    """(cells,): the `SLOW_QUANTILE` of each cell's values; NaN for an empty one."""
    order = np.lexsort((latency_ms, cell))
    counts = np.bincount(cell, minlength=cells)
    ends = np.cumsum(counts)
    at = ends - counts + np.ceil(SLOW_QUANTILE * counts).astype(np.int64) - 1
    found = np.full(cells, np.nan)
    some = counts > 0
    found[some] = latency_ms[order[at[some]]]
    return found
