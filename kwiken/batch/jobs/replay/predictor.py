"""Completion time of a recurring job over executors, from one run or several, with an interval.

The nearest run in size is replayed on the other executors. Two things change its task times:

1. Growth: task time grows with the executors that a stage keeps busy, because they share storage and network.
   Runs of two sizes tell how fast; the growth is taken as linear in the number of executors. One size tells
   nothing, and a small growth is assumed.
2. First waves: a task that is the first of its stage on its slot takes as long as such tasks did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.replay.replayed_run import NetworkBounds, RunModel, run_model
from kwiken.batch.jobs.replay.scheduling import Replayed

# Growth of task time where one size is known, by x, the executors over those of the run:
# 1 + RISE (x - 1) ** BEND. Half of what published errors of replays without growth on 22 decision-support
# queries say (18% at four times, 43% at ten times the executors), as not every storage is shared.
RISE: Final = 0.02
BEND: Final = 1.4
# The most of that growth in nineteen of twenty cases is 1 + RISE_HIGH (x - 1), and the least is none.
RISE_HIGH: Final = 0.08
# Half-widths of nine of ten cases, set on trial queries: on other seeds than those that are reported.
RUN_NOISE: Final = 0.04  # of an equal run
NOISE_OF_DOUBLING: Final = 0.015  # more for each doubling of the executors, from one size
GROWN_NOISE: Final = 0.045  # where the growth is known from two sizes
NOISE_BETWEEN: Final = 0.03  # more for each doubling between known sizes
NOISE_BELOW, NOISE_ABOVE = 0.08, 0.14  # more for each multiple beyond the known sizes, below and above
# Shares of all these widths that nine of ten trial queries need, by split conformal prediction over 120
# queries of seed 903: from runs of one size, at that size, at half, twice and four times as many executors,
# and farther, at six and ten times, where queries of seed 904 from runs on 4 executors need most; from two
# sizes, at the smaller, the larger, between and beyond. The benchmark `batch` prints what is needed.
FAR: Final = 4.0  # ratio to the known size from which on a number of executors is far
NEEDED: Final = {
    ("one", "equal"): 1.12,
    ("one", "other"): 0.82,
    ("one", "far"): 0.92,
    ("two", "smallest"): 1.12,
    ("two", "equal"): 1.76,
    ("two", "between"): 1.03,
    ("two", "beyond"): 0.80,
}
MAX_NOISE: Final = 0.9
MIN_FACTOR, MAX_FACTOR = 0.2, 20.0  # of task time
LOW, EXPECTED, HIGH = 0, 1, 2
MAX_RUNS: Final = 8  # runs of one size that a prediction averages
MAX_POINTS: Final = 10_000


@dataclass(frozen=True)
class JobPrediction:
    """Predicted completion time.

    Attributes:
        total_ms: completion time, milliseconds.
        low_ms: time that one run in twenty falls below, milliseconds.
        high_ms: time that one run in twenty exceeds, milliseconds.
        schedule: schedule of the stages, before it is corrected by the run's own replay.
        based_on: run that is replayed.
    """

    executors: int
    total_ms: float
    low_ms: float
    high_ms: float
    schedule: Replayed
    based_on: BatchJob


class Predictor:
    """Completion time of a job over executors.

    Args:
        runs: runs of the job, at least one with task times.
        width: factor of the widths of intervals, above 0; see `interval_width`.

    Raises:
        InputError: no run has task times.
    """

    def __init__(self, runs: Sequence[BatchJob], *, width: float = 1.0) -> None:
        usable = [run for run in runs if run.executors and any(len(stage.tasks) for stage in run.stages)]
        complete = [run for run in usable if run.ended] or usable
        if not complete:
            run_model(runs[0])  # says what is missing
        self._by_size: dict[int, list[RunModel]] = {}
        for run in complete:
            model = run_model(run)
            self._by_size.setdefault(model.n_executors, []).append(model)
        for models in self._by_size.values():
            del models[:-MAX_RUNS]
        self.sizes = sorted(self._by_size)
        self.growth = self._growth()
        self._width = width

    @property
    def runs(self) -> list[RunModel]:
        """Runs that predictions use, by size."""
        return [model for size in self.sizes for model in self._by_size[size]]

    def base_of(self, executors: int) -> int:
        """Size of the known run that is nearest, by ratio; the larger of two that are equally near."""
        return min(self.sizes, key=lambda size: (abs(math.log(executors / size)), -size))

    def at(
        self,
        executors: int,
        *,
        input_bytes: float | None = None,
        network: NetworkBounds | None = None,
        slots_per_executor: int | None = None,
    ) -> JobPrediction:
        """Predict the completion time.

        Args:
            executors: number of executors, 1 or more.
            input_bytes: bytes of input; None for those of the runs.
            network: links that shuffles share; None for as fast as in the runs.
            slots_per_executor: tasks that an executor runs at once; None for as in the runs.

        Raises:
            InputError: no executor, too many slots, or other input where the runs tell no bytes.
        """
        if executors < 1:
            raise InputError(f"must be 1 or more, not {executors}", where="executors")
        base = self.base_of(executors)
        models = self._by_size[base]
        scales = [_scale(model.job, input_bytes) for model in models]

        def total(kind: int) -> tuple[float, Replayed]:
            found = [
                model.at(
                    executors,
                    factors=self._factors(model, executors)[kind],
                    input_scale=scale,
                    network=network,
                    slots_per_executor=slots_per_executor,
                )
                for model, scale in zip(models, scales, strict=True)
            ]
            return float(np.mean([time for time, _ in found])), found[-1][1]

        time, schedule = total(EXPECTED)
        below, above = self._noise(executors, base)
        known = executors == base or self.growth is not None
        low = (time if known else min(time, total(LOW)[0])) * (1 - below)
        high = (time if known else max(time, total(HIGH)[0])) * (1 + above)
        width = self._width * NEEDED[self._case(executors)]
        return JobPrediction(
            executors=executors,
            total_ms=time,
            low_ms=max(0.0, time - width * (time - low)),
            high_ms=time + width * (high - time),
            schedule=schedule,
            based_on=models[-1].job,
        )

    def _factors(self, model: RunModel, executors: int) -> tuple[Floats, Floats, Floats]:
        """By stage, task time over that of the run: low, expected, high."""
        now, then = model.in_use(executors), model.in_use(model.n_executors)
        if self.growth is not None:
            smallest = self.sizes[0]
            rates = [np.maximum(1 + self.growth * (use - smallest), MIN_FACTOR) for use in (now, then)]
            ratio = np.clip(rates[0] / rates[1], MIN_FACTOR, MAX_FACTOR)
            return ratio, ratio, ratio
        more = np.maximum(now / then, then / now) - 1
        expected, most = 1 + RISE * more**BEND, 1 + RISE_HIGH * more
        most, none = np.maximum(most, expected), np.ones_like(more)
        return (none, expected, most) if executors >= model.n_executors else (1 / most, 1 / expected, none)

    def _noise(self, executors: int, base: int) -> tuple[float, float]:
        """Relative distances from the expected time to the ends of the interval, below and above."""
        known = len(self._by_size[base])
        share = math.sqrt((1 + 1 / known) / 2)  # the mean of several runs is known better than one
        doublings = abs(math.log2(executors / base))
        if self.growth is None:
            both = RUN_NOISE * share + NOISE_OF_DOUBLING * doublings
            return min(MAX_NOISE, both), both
        if self.sizes[0] <= executors <= self.sizes[-1]:
            both = (RUN_NOISE if executors == base else GROWN_NOISE) * share + NOISE_BETWEEN * doublings
            return min(MAX_NOISE, both), both
        beyond = 2**doublings - 1
        below = GROWN_NOISE * share + NOISE_BELOW * beyond
        return min(MAX_NOISE, below), GROWN_NOISE * share + NOISE_ABOVE * beyond

    def _case(self, executors: int) -> tuple[str, str]:
        """Case of `NEEDED`: whether one size is known or more, and where a number of executors lies."""
        if self.growth is None:
            ratio = executors / self.sizes[0]
            return "one", "equal" if ratio == 1 else "far" if not 1 / FAR <= ratio <= FAR else "other"
        if executors in self.sizes:
            return "two", "smallest" if executors == self.sizes[0] else "equal"
        return "two", "between" if self.sizes[0] < executors < self.sizes[-1] else "beyond"

    def _growth(self) -> float | None:
        """Growth of task time with each executor more, relative to the smallest size; None for one size.

        By least squares through the smallest size, each larger run beside the smallest one's replay on as
        many executors. Task times that fall with the cluster are taken as equal.
        """
        if len(self.sizes) < 2:  # noqa: PLR2004 - sizes
            return None
        smallest = self._by_size[self.sizes[0]][-1]
        steps, rises = [], []
        for size in self.sizes[1:]:
            for model in self._by_size[size]:
                scale = _scale_between(smallest.job, model.job)
                expected = smallest.at(size, input_scale=scale)[1].busy_ms
                more = smallest.in_use(size) - smallest.in_use(self.sizes[0])
                step = float(np.average(more, weights=smallest.work_ms() + 1e-9))
                if expected > 0 and step > 0:
                    steps.append(step)
                    rises.append(model.job.task_ms / expected - 1)
        if not steps:
            return 0.0
        slope = float(np.dot(steps, rises) / np.dot(steps, steps))
        return max(0.0, slope)


def _scale(job: BatchJob, input_bytes: float | None) -> float:
    if input_bytes is None:
        return 1.0
    read = job.bytes.read
    if read <= 0:
        raise InputError(
            "the log tells no bytes of input, so other input cannot be predicted", where=job.name
        )
    if not (math.isfinite(input_bytes) and input_bytes > 0):
        raise InputError(f"must be above 0, not {input_bytes}", where="input_bytes")
    return input_bytes / read


def _scale_between(one: BatchJob, other: BatchJob) -> float:
    read, of_other = one.bytes.read, other.bytes.read
    return of_other / read if read > 0 and of_other > 0 else 1.0


def runs_by_job(jobs: Sequence[BatchJob]) -> list[list[BatchJob]]:
    """Runs grouped by job: of one name, with stages of the same names; in order of first appearance."""
    groups: dict[tuple[str, tuple[str, ...]], list[BatchJob]] = {}
    for job in jobs:
        groups.setdefault((job.name, tuple(sorted(stage.name for stage in job.stages))), []).append(job)
    return list(groups.values())
