"""Latency by replica and time: who was slow when (Kwiken Figure 5.2)."""

from __future__ import annotations

import msgspec
import numpy as np

from kwiken.arrays import Floats
from kwiken.errors import InputError
from kwiken.profile import Profile, StageProfile

COLUMNS = 60
SLOW = 0.95
EVERYONE = "all replicas"


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """One stage's calls by replica and stretch of time.

    A slow row is a flaky machine, a slow column a bad moment of the whole stage, a slope a rolling upgrade.

    Attributes:
        stage: its name.
        replicas: names of the rows; one row for all where the traces do not name replicas.
        edges_s: ends of the stretches of time, seconds since 1970; one more than there are columns.
        slow_ms: by replica and stretch: 95th percentile of the calls' latencies, milliseconds; None where
            there were no calls.
        typical_ms: median of all of the stage's calls.
    """

    stage: str
    replicas: tuple[str, ...]
    edges_s: tuple[float, ...]
    slow_ms: tuple[tuple[float | None, ...], ...]
    typical_ms: float

    @property
    def labels(self) -> tuple[str, ...]:
        """What the rows are called: each replica, after its stage where its own name does not begin so."""
        return tuple(
            name if name != EVERYONE and name.startswith(self.stage) else f"{self.stage} {name}"
            for name in self.replicas
        )


def heat_maps(profile: Profile, *, columns: int = COLUMNS) -> tuple[Heat, ...]:
    """The heat map of every stage that was called; a request's own time has none (Kwiken Figure 5.2).

    A call counts when its request started, with its latency as it would have been without copies; cancelled
    calls with as long as they ran.

    Args:
        profile: what was learned.
        columns: stretches of time, all of equal length.

    Raises:
        InputError: for a profile without requests, or no column.
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
    names = stage.replica_names if stage.asked is not None else (EVERYONE,)
    there = ~np.isnan(stage.calls_ms) & (asked >= 0)
    columns = len(edges) - 1
    cell = (asked * columns + stretch[:, None])[there]
    found = _quantiles(cell, stage.calls_ms[there], len(names) * columns).reshape(len(names), columns)
    return Heat(
        stage=stage.name,
        replicas=tuple(names),
        edges_s=tuple(edges.tolist()),
        slow_ms=tuple(tuple(None if np.isnan(value) else value for value in row) for row in found.tolist()),
        typical_ms=float(np.nanmedian(stage.calls_ms)),
    )


def _quantiles(cell: np.ndarray[tuple[int], np.dtype[np.int64]], latency_ms: Floats, cells: int) -> Floats:
    """(cells,): the `SLOW` quantile of each cell's values; NaN for an empty one."""
    order = np.lexsort((latency_ms, cell))
    counts = np.bincount(cell, minlength=cells)
    ends = np.cumsum(counts)
    at = ends - counts + np.ceil(SLOW * counts).astype(np.int64) - 1
    found = np.full(cells, np.nan)
    some = counts > 0
    found[some] = latency_ms[order[at[some]]]
    return found
