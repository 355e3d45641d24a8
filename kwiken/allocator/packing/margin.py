"""Margin left free on a node, so that its tasks use more than the node has no more often than a given chance.

Tasks are taken as independent: the use of a node has the sum of their means and the sum of their variances,
and the chance is that of a normal distribution. Covariances are left out on purpose. Of thousands of sums the
ones that look best are chosen, so a covariance that was drawn from few samples is chosen for its error.
Later use differs from the use that was seen: levels drift, and sums are not quite normal. One factor on the
standard deviation answers for both. It is learned: tasks are grouped by one part of the series and the groups
are judged on another part, and the factor is the one with which the chance told is the share measured.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import ndtr

from kwiken.allocator.packing.tasks.usage import UsageSeries, Use, filled_cores, lasting_variance
from kwiken.base.arrays import Floats, Ints

LEVELS: Final = (1.5, 2.0, 2.5, 3.0)  # standard deviations of room in the groups that are judged
FACTORS: Final = np.round(np.arange(0.8, 4.01, 0.05), 2)
UNLEARNED: Final = 1.5  # factor where there are too few samples to learn one
MIN_LEARNED: Final = 24  # samples of the series, and tasks with known use
MIN_MEASURED: Final = 1e-5  # share of the time; below, no factor can be told from another
MIN_VARIANCE: Final = 1e-12


def chance_above(mean: Floats, variance: Floats, capacity: Floats, factor: float) -> Floats:
    """Chance that a sum of tasks is above a capacity, as the share of the time.

    Args:
        mean: (n,) sum of the means of the tasks' use.
        variance: (n,) sum of the variances of the tasks' use.
        capacity: (n,) capacity, in the unit of the means.
        factor: factor on the standard deviation, as `learned_factor` finds it.
    """
    spread = factor * np.sqrt(np.maximum(variance, MIN_VARIANCE))
    return np.asarray(ndtr((mean - capacity) / spread), dtype=np.float64)


def levelled(mean: Floats, variance: Floats, groups: int) -> Ints:
    """Spread tasks over groups so that mean plus two standard deviations of each group are about equal.

    The tasks go in the order of their own mean and deviations, the largest first, each to the group that is
    lowest with it.

    Args:
        mean: (t,) mean use of each task.
        variance: (t,) variance of each task's use.
        groups: number of groups, 1 or more.

    Returns:
        (t,) group of each task.
    """
    sums, spreads = np.zeros(groups), np.zeros(groups)
    found = np.empty(len(mean), dtype=np.int64)
    for task in np.argsort(-(mean + 2 * np.sqrt(variance)), kind="stable").tolist():
        group = int(np.argmin(sums + 2 * np.sqrt(spreads + variance[task])))
        sums[group] += mean[task]
        spreads[group] += variance[task]
        found[task] = group
    return found


def sums_of(values: Floats, group: Ints, groups: int) -> Floats:
    """Sum of the rows of each group.

    Args:
        values: (t, ...) a value or a series for each task.
        group: (t,) group of each task, from 0.
        groups: number of groups, more than every value of `group`.
    """
    found = np.zeros((groups, *values.shape[1:]))
    np.add.at(found, group, values)
    return found


def learned_factor(series: UsageSeries, use: Use, capacity: float) -> tuple[float, bool]:
    """Factor on the standard deviation with which the told chance is the share that was measured.

    The series is halved in time. Each half in turn gives the groups and their chances, the other one the
    share of the time above the capacity.

    Args:
        use: statistics of the whole series; says which tasks' use is known.
        capacity: number of cores of a usual node.

    Returns:
        the factor, and whether it was learned; without enough samples or tasks it is 1.5.
    """
    rows = filled_cores(series, use)[use.known]
    samples = rows.shape[1]
    if samples < MIN_LEARNED or len(rows) < MIN_LEARNED:
        return UNLEARNED, False
    first, second = rows[:, : samples // 2], rows[:, samples // 2 :]
    told, measured = np.zeros(len(FACTORS)), 0.0
    for seen, later in ((first, second), (second, first)):
        mean, variance = seen.mean(axis=1), lasting_variance(seen)
        for level in LEVELS:
            groups = _groups_for(mean, variance, capacity, level)
            if groups < 2:  # noqa: PLR2004 - a single group is filled by no choice
                continue
            group = levelled(mean, variance, groups)
            sums, spreads = sums_of(mean, group, groups), sums_of(variance, group, groups)
            room = np.full(groups, capacity)
            told += [float(chance_above(sums, spreads, room, factor).mean()) for factor in FACTORS]
            measured += float((sums_of(later, group, groups) > capacity).mean())
    if measured < MIN_MEASURED:
        return UNLEARNED, False
    return float(FACTORS[np.argmin(np.abs(told - measured))]), True


def _groups_for(mean: Floats, variance: Floats, capacity: float, level: float) -> int:
    """Fewest groups whose mean and `level` standard deviations fit the capacity, if all were alike."""
    total, spread = float(mean.sum()), float(variance.sum())
    groups = max(1, int(np.ceil(total / capacity)))
    while total / groups + level * np.sqrt(spread / groups) > capacity and groups < len(mean):
        groups += 1
    return groups
