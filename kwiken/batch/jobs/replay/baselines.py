"""Baselines of predictions: waves on the longest path, Ernest's four terms, a line in 1/n, and a constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.jobs.mapreduce.stages import critical_path
from kwiken.batch.jobs.replay.replayed_run import RunModel


def by_waves(run: RunModel, executors: Sequence[int]) -> Floats:
    """Completion times by the published rule, milliseconds: waves times mean task time, on the longest path.

    Each stage has all slots to itself; the driver's own time and the arrival of executors are kept.

    Args:
        executors: numbers of executors, each 1 or more.
    """
    slots = np.asarray(executors, dtype=np.int64) * run.slots_per_executor
    times = np.zeros((len(run.stages), slots.size))
    for place, stage in enumerate(run.job.stages):
        n = len(stage.tasks)
        work = -(-n // slots) * (stage.task_ms / n) if n else np.zeros(slots.size)
        times[place] = (stage.wait_ms if stage.after else max(stage.wait_ms, run.arrivals_ms[0])) + work
    return critical_path([list(stage.after) for stage in run.job.stages], times)[0] + run.tail_ms


def by_ernest(known: Sequence[int], took_ms: Sequence[float], executors: Sequence[int]) -> Floats:
    """Completion times by Ernest, milliseconds: 1, 1/n, log n and n with weights that are not negative.

    Args:
        known: numbers of executors of the known runs, at least one.
        took_ms: completion times of the known runs, milliseconds.
        executors: numbers of executors to predict for.
    """
    from scipy.optimize import nnls

    weights, _ = nnls(_terms(known), np.asarray(took_ms, dtype=np.float64))
    return np.asarray(_terms(executors) @ weights, dtype=np.float64)


def by_two_points(known: Sequence[int], took_ms: Sequence[float], executors: Sequence[int]) -> Floats:
    """Completion times by a + b / n through the smallest and the largest known size, milliseconds.

    Args:
        known: numbers of executors of the known runs, of two sizes or more.
        took_ms: completion times of the known runs, milliseconds.
        executors: numbers of executors to predict for.
    """
    sizes, times = np.asarray(known, dtype=np.float64), np.asarray(took_ms, dtype=np.float64)
    least, most = sizes.min(), sizes.max()
    low, high = times[sizes == least].mean(), times[sizes == most].mean()
    slope = (low - high) / (1 / least - 1 / most)
    found: Floats = high + slope * (1 / np.asarray(executors, dtype=np.float64) - 1 / most)
    return np.maximum(found, 0.0)


def _terms(executors: Sequence[int]) -> Floats:
    n = np.asarray(executors, dtype=np.float64)
    return np.stack([np.ones_like(n), 1 / n, np.log(n), n], axis=1)
