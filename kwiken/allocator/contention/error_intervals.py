"""Error intervals of contention scores, from what a service's p99 may lose, and what to measure first.

An interval is how far a score may be off before more than a twentieth of the neighbours that a scheduler
would accept cost the target, or that it would refuse could have been borne. The known workloads stand for
the workload, whose scores are not known yet, and for its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.placement.quality import contention_loss
from kwiken.allocator.workloads.completion.nearest import NearestRows
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError

MISSED: Final = 0.05  # share of the targets that an error may cost
STEP: Final = 0.025  # of the errors that are tried, in points of a score
MAX_ERROR: Final = 0.5  # largest error that is tried: an interval that ends there has no end
MIN_SOURCES: Final = 2  # that a classification needs in any case
MAX_SLOWDOWN: Final = 8.0  # factor on a stage's latencies that is tried
SLOWDOWN_STEPS: Final = 12  # halvings of the range of factors
MIN_TOLERATED: Final = 1e-9  # keeps ratios of pressure finite
MAX_ROWS: Final = 200  # of a long history


@dataclass(frozen=True)
class ErrorInterval:
    """Interval of the error that a tolerated score may have.

    Attributes:
        source: name of the source of contention.
        under: points of the score by which it may be predicted too low, 0 to 0.5.
        over: points by which it may be predicted too high, 0 to 0.5.
        missed: share of the targets that are missed where the score is predicted and not measured.
        measured: whether the plan measures the source.
    """

    source: str
    under: float
    over: float
    missed: float
    measured: bool

    @property
    def width(self) -> float:
        """Width of the interval, in points of the score."""
        return self.under + self.over


@dataclass(frozen=True)
class SourcePlan:
    """Sources to measure, the one whose error costs most first.

    Attributes:
        sources: names of the sources to measure.
        intervals: interval of every source, narrowest first.
    """

    sources: tuple[str, ...]
    intervals: tuple[ErrorInterval, ...]


def allowed_slowdown(p99_ms: Callable[[float], float], target_ms: float) -> float:
    """Largest factor on a stage's latencies with which the p99 of the service keeps its target.

    Args:
        p99_ms: p99 of the service, milliseconds, by a factor on the stage's latencies; it rises with it.
        target_ms: p99 to keep, milliseconds.

    Returns:
        A factor from 1 to 8; 1 where the target is missed already.
    """
    low, high = 1.0, MAX_SLOWDOWN
    if p99_ms(high) <= target_ms:
        return high
    if p99_ms(low) > target_ms:
        return low
    for _ in range(SLOWDOWN_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if p99_ms(middle) <= target_ms else (low, middle)
    return low


def error_intervals(
    tolerated: Floats, caused: Floats, slowdown: float, sources: tuple[str, ...]
) -> tuple[ErrorInterval, ...]:
    """Interval of each source, as if none were measured.

    Args:
        tolerated: (m, s) tolerated scores of known workloads, from 0 to 1.
        caused: (n, s) caused scores of known workloads, from 0 to 1.
        slowdown: factor on the latencies that the service bears, 1 or more.
        sources: (s,) names of the sources.
    """
    _check(tolerated, caused, slowdown)
    predicted = _predicted(tolerated, np.array([], dtype=np.int64))
    return tuple(
        ErrorInterval(
            source=name,
            under=_reach(tolerated[:, at], caused[:, at], slowdown, -STEP),
            over=_reach(tolerated[:, at], caused[:, at], slowdown, STEP),
            missed=_missed(tolerated[:, at], predicted[:, at], caused[:, at], slowdown),
            measured=False,
        )
        for at, name in enumerate(sources)
    )


def sources_to_measure(
    tolerated: Floats, caused: Floats, slowdown: float, sources: tuple[str, ...]
) -> SourcePlan:
    """Measure the source whose error costs most, predict the others from it, and so on.

    The end is reached where no other source costs more than a twentieth of the targets. Scores that are not
    measured are medians of the nearest known workloads, of which the judged one is none.

    Args:
        tolerated: (m, s) tolerated scores of known workloads, from 0 to 1, 3 rows or more.
        caused: (n, s) caused scores of known workloads, from 0 to 1.
        slowdown: factor on the latencies that the service bears, 1 or more.
        sources: (s,) names of the sources, one or more.

    Raises:
        InputError: for scores of another shape, too few of them, or a factor below 1.
    """
    _check(tolerated, caused, slowdown)
    tolerated, caused = tolerated[-MAX_ROWS:], caused[-MAX_ROWS:]
    chosen: list[int] = []
    costs = np.zeros(len(sources))
    while len(chosen) < len(sources):
        predicted = _predicted(tolerated, np.array(sorted(chosen), dtype=np.int64))
        now = np.array(
            [
                0.0 if at in chosen else _missed(tolerated[:, at], predicted[:, at], caused[:, at], slowdown)
                for at in range(len(sources))
            ]
        )
        if not chosen:
            costs = now
        if len(chosen) >= MIN_SOURCES and now.max() <= MISSED:
            break
        spread = tolerated.std(axis=0)  # of sources that cost alike, the one that varies most
        left = [at for at in range(len(sources)) if at not in chosen]
        chosen.append(max(left, key=lambda at: (now[at], spread[at])))
    intervals = [
        ErrorInterval(
            source=each.source,
            under=each.under,
            over=each.over,
            missed=float(costs[at]),
            measured=at in chosen,
        )
        for at, each in enumerate(error_intervals(tolerated, caused, slowdown, sources))
    ]
    return SourcePlan(
        sources=tuple(sources[at] for at in chosen),
        intervals=tuple(sorted(intervals, key=lambda each: each.width)),
    )


def _check(tolerated: Floats, caused: Floats, slowdown: float) -> None:
    if tolerated.ndim != 2 or caused.ndim != 2 or tolerated.shape[1:] != caused.shape[1:]:  # noqa: PLR2004 - a matrix
        raise InputError("tolerated and caused scores must be matrices over the same sources")
    if len(tolerated) < 3 or not len(caused) or not tolerated.shape[1]:  # noqa: PLR2004 - as a classification
        raise InputError("needs 3 or more workloads that were measured at every source")
    if not slowdown >= 1:
        raise InputError(f"the slowdown must be 1 or more, not {slowdown}")


def _reach(tolerated: Floats, caused: Floats, slowdown: float, step: float) -> float:
    """Largest error in one direction whose cost is at most that of no error and a twentieth."""
    price = _missed if step > 0 else _refused
    before = price(tolerated, tolerated, caused, slowdown)
    reach = 0.0
    while reach + STEP <= MAX_ERROR + STEP / 2:
        off = np.clip(tolerated + np.sign(step) * (reach + STEP), 0.0, 1.0)
        if price(tolerated, off, caused, slowdown) - before > MISSED:
            break
        reach += STEP
    return round(reach, 6)


def _missed(tolerated: Floats, predicted: Floats, caused: Floats, slowdown: float) -> float:
    """Share of pairs of a workload and a neighbour that is accepted by prediction and costs the target.

    Args:
        tolerated: (m,) true tolerated pressure at one source.
        predicted: (m,) the same as predicted.
        caused: (n,) pressure of the neighbours.
    """
    accepted = caused[None, :] <= predicted[:, None]
    return float((accepted & ~_borne(tolerated, caused, slowdown)).mean())


def _refused(tolerated: Floats, predicted: Floats, caused: Floats, slowdown: float) -> float:
    """Share of pairs of a workload and a neighbour that is refused by prediction and could be borne."""
    refused = caused[None, :] > predicted[:, None]
    return float((refused & _borne(tolerated, caused, slowdown)).mean())


def _borne(tolerated: Floats, caused: Floats, slowdown: float) -> Bools:
    """(m, n) whether a workload loses no more beside a neighbour than the service bears."""
    pressure = np.tile(caused, (len(tolerated), 1)).T
    loss = contention_loss(
        pressure, np.maximum(tolerated, MIN_TOLERATED)[None, :].repeat(len(caused), axis=0)
    )
    return np.asarray(1.0 / slowdown <= 1.0 - loss.T)


def _predicted(rows: Floats, columns: Ints) -> Floats:
    """(m, s) each row by the median of the nearest others, from some of its scores."""
    if not len(columns):
        return np.array([np.median(np.delete(rows, at, axis=0), axis=0) for at in range(len(rows))])
    return np.array(
        [
            NearestRows().fit(np.delete(rows, at, axis=0), level=False).complete(columns, row[columns]).mean
            for at, row in enumerate(rows)
        ]
    )
