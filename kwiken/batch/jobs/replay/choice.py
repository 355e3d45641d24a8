"""Choice between the models of a job by the error on runs that a model has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.replay.predictor import Predictor
from kwiken.batch.jobs.replay.replayed_run import RunModel

Model = Literal["replay", "waves"]
TIE: Final = 0.005  # of the completion time, by which an error must be smaller to be preferred
MAX_HELD_OUT: Final = 12  # runs that are left out in turn


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
    ends = np.zeros_like(times)
    for place, stage in enumerate(run.job.stages):
        ends[place] = times[place] + (ends[list(stage.after)].max(axis=0) if stage.after else 0.0)
    longest: Floats = ends.max(axis=0, initial=0.0)
    return longest + run.tail_ms


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


@dataclass(frozen=True)
class ModelChoice:
    """Model to predict with.

    Attributes:
        model: `replay` for list scheduling of the job's own tasks, `waves` for the published rule.
        errors: by model, mean relative error on runs left out; empty where none can be left out.
        reason: why it was chosen, for users.
    """

    model: Model
    errors: Mapping[str, float]
    reason: str


def baselines_at(predictor: Predictor, executors: Sequence[int]) -> dict[str, list[float]]:
    """Completion times by what predictions are compared with, milliseconds, by the name of the rule.

    Ernest and the line in 1/n need runs of two sizes, and are left out without them.

    Args:
        executors: numbers of executors, each 1 or more.
    """
    runs = predictor.runs
    by_size = {model.n_executors: model for model in runs}
    bases = [by_size[predictor.base_of(n)] for n in executors]
    found = {
        "waves": [float(by_waves(base, [n])[0]) for base, n in zip(bases, executors, strict=True)],
        "constant": [float(base.job.took_ms) for base in bases],
    }
    if len(predictor.sizes) > 1:
        known = [model.n_executors for model in runs]
        took_ms = [model.job.took_ms for model in runs]
        found["ernest"] = list(map(float, by_ernest(known, took_ms, executors)))
        found["two points"] = list(map(float, by_two_points(known, took_ms, executors)))
    return found


def choose_model(runs: Sequence[BatchJob]) -> ModelChoice:
    """Choose by leaving out each size in turn, or each run where all have one size.

    Args:
        runs: runs of one job, at least one with task times.
    """
    usable = Predictor(runs).runs
    sizes = {model.n_executors for model in usable}
    if len(usable) == 1:
        reason = "one run is known, so none can be held out; replays know which stages share the slots"
        return ModelChoice("replay", {}, reason)
    held: list[tuple[list[BatchJob], list[BatchJob]]] = []
    if len(sizes) > 1:
        for size in sorted(sizes):
            out = [model.job for model in usable if model.n_executors == size]
            held.append((out, [model.job for model in usable if model.n_executors != size]))
    else:
        jobs = [model.job for model in usable]
        held = [([job], [other for other in jobs if other is not job]) for job in jobs]
    errors: dict[str, list[float]] = {}
    for out, rest in held[:MAX_HELD_OUT]:
        _judge(out, Predictor(rest), errors)
    mean = {name: float(np.mean(values)) for name, values in errors.items()}
    model: Model = "waves" if mean["waves"] < mean["replay"] - TIE else "replay"
    other = "waves" if model == "replay" else "replay"
    what = "sizes" if len(sizes) > 1 else "runs"
    order = [name for name in (model, other, "ernest", "constant") if name in mean]
    told = ", ".join(f"{name} {mean[name]:.1%}" for name in order)
    reason = f"mean error on {what} held out in turn: {told}"
    return ModelChoice(model, mean, reason)


def _judge(out: list[BatchJob], predictor: Predictor, errors: dict[str, list[float]]) -> None:
    for job in out:
        n = job.n_executors
        predicted = {name: values[0] for name, values in baselines_at(predictor, [n]).items()}
        predicted["replay"] = predictor.at(n).total_ms
        for name, value in predicted.items():
            errors.setdefault(name, []).append(abs(value - job.took_ms) / max(1, job.took_ms))


def smallest_in_time(total_ms: Callable[[int], float], deadline_ms: float, most: int) -> int | None:
    """Smallest number of executors that meets a deadline; None if none up to `most` does.

    The time is taken as falling up to the number that is found: the search doubles, and then halves.

    Args:
        total_ms: completion time by number of executors, milliseconds.
        deadline_ms: completion time that is wanted, milliseconds.
        most: largest number that is tried, 1 or more.
    """
    n = 1
    while n < most and total_ms(n) > deadline_ms:
        n = min(2 * n, most)
    if total_ms(n) > deadline_ms:
        return None
    low, high = n // 2, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if total_ms(middle) <= deadline_ms else (middle, high)
    return high
