"""Use that is to come, task by task, and the chance that tasks together use more than a node has.

A task's own samples tell too little of rare high use: a packer that sees them alone puts the tasks together
whose peaks happened not to be sampled. So a task's later use is drawn in part from its own samples and in
part from what tasks of like spread did. Within the series, each half tells how far use departed from the mean
and the spread that the other half would have led one to expect; these departures, of the quarter of tasks
that are nearest in spread, are scaled to the task. No task is predicted to use less than nothing, or
more than the most that was seen of it and of these tasks.

Each distribution is kept as logarithms of its exponential moments at a few slopes. These add up over the
tasks of a node, and the chance that the sum is above a capacity follows from them by the saddle point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr, logsumexp

from kwiken.allocator.packing.tasks.usage import UsageSeries, Use, filled_cores
from kwiken.base.arrays import Floats

MIN_SAMPLES_OF_LATER: Final = 48  # of the series; each half of it is halved again
MIN_TASKS_OF_LATER: Final = 48  # with known use; with fewer nothing is told of tasks of like spread
SLOPES: Final = np.geomspace(2.0, 640.0, 28)  # per capacity of a usual node, the one of median cores
MAX_WIDER: Final = 44  # slopes more at each end, for nodes of up to 12,000 times the usual size, or as small
OWN: Final = 0.25  # part of the later use that is drawn from the task's own samples
NEAR: Final = 0.25  # part of the tasks that are of like spread
CENTRES: Final = 16  # spreads at which departures are gathered; between them they are interpolated
MAX_GATHERED: Final = 2_000  # tasks whose departures are gathered
MAX_LATER: Final = 96  # samples of each task whose departures are gathered
MAX_OWN: Final = 256  # values that stand for a task's own samples
TOP: Final = 0.04  # share of the departures, the largest, that is kept in finer parts
PARTS, PARTS_OF_TOP = 80, 40  # quantiles that stand for the departures: below the top, in the top
SMALL_MEAN, SMALL_SQUARE, FLOOR = 0.005, 1e-4, 1e-5  # of the unit; added before a logarithm is taken
# The unit is a usual node, or this many times the mean use of a task where that is less: on large nodes the
# constants above would make the spreads of all tasks alike.
LARGEST_UNIT: Final = 40.0
MIN_MEAN: Final = 1e-6  # cores that tasks are taken to use at least, so that the unit is above 0
ROUNDING: Final = 1e-9  # of numbers of slopes, so that rounding adds none
RIDGE: Final = 0.02  # weight, for each half of a series, of the belief that the variance seen comes again
ROUNDS: Final = 40  # of the fit of the weights of features
CHUNK: Final = 256  # tasks at a time, so that memory stays small
WEIGHTS: Final = np.concatenate(
    [np.full(PARTS, (1 - TOP) / PARTS), np.full(PARTS_OF_TOP, TOP / PARTS_OF_TOP)]
)
MIDDLES: Final = np.cumsum(WEIGHTS) - WEIGHTS / 2  # levels of the quantiles


@dataclass(frozen=True, eq=False)
class LaterUse:
    """Distributions of the use that is to come, as exponential moments.

    Attributes:
        slopes: (j,) slopes, per core, ascending.
        logs: (t, j) logarithm of the mean of exp(slope times use) of each task.
    """

    slopes: Floats
    logs: Floats

    def chance(self, sums: Floats, capacity: Floats) -> Floats:
        """Chance that a sum of tasks is above a capacity, as the share of the time.

        Args:
            sums: (n, j) sum of the `logs` of the tasks.
            capacity: (n,) number of cores.
        """
        excess = sums - self.slopes * capacity[:, None]
        at = np.clip(np.argmin(excess, axis=1), 1, len(self.slopes) - 2)
        row = np.arange(len(sums))
        left, middle, right = self.slopes[at - 1], self.slopes[at], self.slopes[at + 1]
        rise = (excess[row, at] - excess[row, at - 1]) / (middle - left)
        curve = (excess[row, at + 1] - excess[row, at]) / (right - middle) - rise
        curve = np.maximum(curve / (right - left), 1e-9)
        slope = np.clip((left + middle) / 2 - rise / (2 * curve), left, right)
        least = excess[row, at] + (slope - middle) * (rise + curve * (slope - left))
        width = slope * np.sqrt(2 * curve)
        told = np.minimum(least + width**2 / 2 + log_ndtr(-width), 0.0)
        return np.asarray(np.exp(told), dtype=np.float64)


def later_use(series: UsageSeries, use: Use, cores: Floats) -> LaterUse | None:
    """Distributions of the use that is to come; None with too few samples or tasks to learn them from.

    Args:
        use: statistics of the whole series; where a task's use is not known, its mean stands for its use.
        cores: (n,) number of cores of each node, one node or more.
    """
    rows = filled_cores(series, use)[use.known]
    if rows.shape[1] < MIN_SAMPLES_OF_LATER or len(rows) < MIN_TASKS_OF_LATER:
        return None
    usual = float(np.median(cores))
    unit = min(usual, LARGEST_UNIT * max(float(rows.mean()), MIN_MEAN))
    slopes = _slopes_for(cores / usual) * (unit / usual)
    rows = rows / unit
    half = rows.shape[1] // 2
    # Of an odd number of samples the first is left out, so that both halves are as long.
    gathered = rows[:: max(1, -(-len(rows) // MAX_GATHERED)), -2 * half :]
    pairs = [(gathered[:, :half], gathered[:, half:]), (gathered[:, half:], gathered[:, :half])]
    weights = _spread_weights(pairs)
    scales = np.concatenate([np.log(_spread(seen, weights)) for seen, _ in pairs])
    departures = np.concatenate(
        [
            (after[:, :: -(-half // MAX_LATER)] - seen.mean(axis=1)[:, None])
            / _spread(seen, weights)[:, None]
            for seen, after in pairs
        ]
    )
    most = np.concatenate([after.max(axis=1) for _, after in pairs])
    centres = np.quantile(scales, (np.arange(CENTRES) + 0.5) / CENTRES)
    count = max(1, round(NEAR * len(scales)))
    near = [np.argsort(np.abs(scales - one))[:count] for one in centres]
    alike = _Alike(
        centres,
        np.array([np.quantile(departures[own], MIDDLES) for own in near]),
        np.array([most[own].max() for own in near]),
    )
    logs = use.mean[:, None] / unit * slopes
    known = np.flatnonzero(use.known)
    for begin in range(0, len(rows), CHUNK):
        part = rows[begin : begin + CHUNK]
        own = _own(part, slopes)
        others = alike.logs(part, _spread(part, weights), slopes)
        logs[known[begin : begin + CHUNK]] = np.logaddexp(np.log(OWN) + own, np.log(1 - OWN) + others)
    return LaterUse(slopes / unit, logs)


def _slopes_for(sizes: Floats) -> Floats:
    """Slopes for nodes of unequal sizes: for each node at least the range that a usual one has.

    Args:
        sizes: (n,) cores of each node as a multiple of those of a usual one.
    """
    ratio = float(SLOPES[1] / SLOPES[0])
    fewer, more = (
        min(MAX_WIDER, int(np.ceil(np.log(size) / np.log(ratio) - ROUNDING)))
        for size in (max(float(sizes.max()), 1.0), max(1 / float(sizes.min()), 1.0))
    )
    low, high = (np.arange(1, count + 1) for count in (fewer, more))
    return np.concatenate([SLOPES[0] * ratio ** -low[::-1], SLOPES, SLOPES[-1] * ratio**high])


def _features(rows: Floats) -> Floats:
    half = rows.shape[1] // 2
    moved = (rows[:, :half].mean(axis=1) - rows[:, half:].mean(axis=1)) ** 2 / 2
    columns = (
        np.log(rows.mean(axis=1) + SMALL_MEAN),
        np.log(rows.var(axis=1) + SMALL_SQUARE),
        np.log(moved + SMALL_SQUARE),
    )
    return np.stack([np.ones(len(rows)), *columns], axis=1)


def _spread_weights(pairs: list[tuple[Floats, Floats]]) -> Floats:
    """Weights of the features in the logarithm of the mean square of later use about the mean seen.

    The likelihood is that of a gamma distribution, so that the mean square of all tasks is met.
    """
    found = np.concatenate([_features(seen) for seen, _ in pairs])
    square = FLOOR + np.concatenate(
        [((after - seen.mean(axis=1)[:, None]) ** 2).mean(axis=1) for seen, after in pairs]
    )
    weights = np.zeros(found.shape[1])
    weights[0], weights[2] = float(np.log(square.mean()) - np.mean(found[:, 2])), 1.0
    matrix = found.T @ found + RIDGE * len(found) * np.diag([0.0, 1.0, 1.0, 1.0])
    prior = np.array([0.0, 0.0, 1.0, 0.0])  # the variance that was seen comes again
    for _ in range(ROUNDS):
        surplus = square / np.exp(np.clip(found @ weights, -30, 30)) - 1.0
        pull = found.T @ np.clip(surplus, -1.0, 10.0) + RIDGE * len(found) * np.array([0, 1, 1, 1]) * (
            prior - weights
        )
        weights = weights + np.linalg.solve(matrix, pull)
    return weights


def _spread(rows: Floats, weights: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(_features(rows) @ weights, -30, 30) / 2), dtype=np.float64)


def _own(rows: Floats, slopes: Floats) -> Floats:
    """Logarithms of exponential moments of each task by its own samples, by means of ranks where many."""
    every = -(-rows.shape[1] // MAX_OWN)
    if every > 1:
        whole = rows.shape[1] // every * every
        rows = np.sort(rows, axis=1)[:, -whole:].reshape(len(rows), -1, every).mean(axis=2)
    return np.asarray(logsumexp(rows[:, :, None] * slopes, axis=1) - np.log(rows.shape[1]), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Departures of tasks of like spread from their expected use.

    Attributes:
        centres: (c,) logarithms of spreads, ascending.
        departures: (c, q) departures from the mean at each centre, in spreads, a value for each part.
        most: (c,) most use that was seen of the tasks at each centre.
    """

    centres: Floats
    departures: Floats
    most: Floats

    def logs(self, rows: Floats, spread: Floats, slopes: Floats) -> Floats:
        """(t, j) Logarithms of exponential moments of tasks, by departures of tasks of like spread."""
        place = np.interp(np.log(spread), self.centres, np.arange(len(self.centres)))
        low = np.minimum(place.astype(np.int64), len(self.centres) - 2)
        part = (place - low)[:, None]
        scaled = (1 - part) * self.departures[low] + part * self.departures[low + 1]
        most = np.maximum(np.maximum(self.most[low], self.most[low + 1]), rows.max(axis=1))
        values = np.clip(rows.mean(axis=1)[:, None] + spread[:, None] * scaled, 0.0, most[:, None])
        return np.asarray(
            logsumexp(values[:, :, None] * slopes, axis=1, b=WEIGHTS[:, None]), dtype=np.float64
        )
