"""Report of `kwiken batch predict`: time over executors beside baselines, stages, and what pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kwiken.apps.console.output import note, print_table, say
from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.replay.calibration import IntervalWidth
from kwiken.batch.jobs.replay.choice import ModelChoice, baselines_at, choose_model, smallest_in_time
from kwiken.batch.jobs.replay.predictor import JobPrediction, Predictor
from kwiken.batch.jobs.replay.replayed_run import MAX_SLOTS, NetworkBounds

MS: Final = 1000.0
ENOUGH: Final = 1.05  # of the shortest time: fewer executors that come this near are enough
MAX_FOR_DEADLINE: Final = 16  # times the largest size asked for, up to which a deadline is searched
MAX_STAGES_SHOWN: Final = 20
MAX_STAGE_NAME: Final = 44  # characters
SHORT: Final = 0.01  # of the completion time: stages below are not listed
FAR: Final = 4.0  # times more or fewer executors than any known run


@dataclass(frozen=True)
class PredictedCurve:
    """Predictions of one job over executors.

    Attributes:
        runs: runs that they rest on.
        points: predictions, by number of executors.
        baselines: by rule, completion times at the same numbers, milliseconds.
        total_ms: completion times by the chosen model, milliseconds.
        fewest: fewest executors that meet the deadline; None where none does or none is asked for.
        surest: fewest executors whose upper bound meets it; None where none does or none is asked for.
        deadline_ms: completion time that is wanted, milliseconds; None where none is asked for.
        slots_per_executor: number of tasks that an executor runs at once.
        width: factor of the intervals' widths from runs held out; None where there are too few.
    """

    runs: list[BatchJob]
    points: list[JobPrediction]
    baselines: dict[str, list[float]]
    choice: ModelChoice
    total_ms: list[float]
    fewest: int | None
    surest: int | None
    deadline_ms: float | None
    slots_per_executor: int
    growth: float | None
    sizes: list[int]
    width: IntervalWidth | None

    @classmethod
    def of(
        cls,
        runs: list[BatchJob],
        executors: Sequence[int],
        *,
        slots_per_executor: int | None,
        input_bytes: float | None,
        network: NetworkBounds | None,
        deadline_ms: float | None,
        width: IntervalWidth | None = None,
    ) -> PredictedCurve:
        """Predict over executors.

        Args:
            executors: numbers of executors, each 1 or more.
            slots_per_executor: tasks that an executor runs at once; None for as in the runs.
            input_bytes: bytes of input; None for those of the runs.
            network: links that shuffles share; None for as fast as in the runs.
            deadline_ms: completion time that is wanted, milliseconds; None for none.
            width: factor of the intervals' widths from runs held out; None for that of trial queries.

        Raises:
            InputError: too many slots, or other input where the runs tell no bytes.
        """
        predictor = Predictor(runs, width=1.0 if width is None else width.factor)
        most_slots = slots_per_executor or max(model.slots_per_executor for model in predictor.runs)
        if max(executors) * most_slots > MAX_SLOTS:
            raise InputError(
                f"{max(executors)} executors of {most_slots} slots are too many; {MAX_SLOTS} slots are the "
                "most",
                where="--executors",
            )
        choice = choose_model(runs)

        def at(n: int) -> JobPrediction:
            return predictor.at(
                n, input_bytes=input_bytes, network=network, slots_per_executor=slots_per_executor
            )

        def total(n: int) -> float:
            return at(n).total_ms if choice.model == "replay" else baselines_at(predictor, [n])["waves"][0]

        points = [at(n) for n in executors]
        baselines = baselines_at(predictor, executors)
        most = min(MAX_FOR_DEADLINE * max(executors), MAX_SLOTS // most_slots)
        fewest = surest = None
        if deadline_ms is not None:
            fewest = smallest_in_time(total, deadline_ms, most)
            surest = smallest_in_time(lambda n: at(n).high_ms, deadline_ms, most)
        replayed = [point.total_ms for point in points]
        return cls(
            runs=runs,
            points=points,
            baselines=baselines,
            choice=choice,
            total_ms=replayed if choice.model == "replay" else baselines["waves"],
            fewest=fewest,
            surest=surest,
            deadline_ms=deadline_ms,
            slots_per_executor=slots_per_executor or predictor.runs[-1].slots_per_executor,
            growth=predictor.growth,
            sizes=predictor.sizes,
            width=width,
        )

    @property
    def best(self) -> int:
        """Index of the shortest completion time."""
        return int(np.argmin(self.total_ms))

    @property
    def enough(self) -> int:
        """Index of the fewest executors that come near the shortest completion time."""
        return next(at for at, time in enumerate(self.total_ms) if time <= ENOUGH * self.total_ms[self.best])


def show(found: PredictedCurve) -> None:
    """Print the predictions, the stages at the largest size that pays, and the answers."""
    sizes = ", ".join(str(size) for size in found.sizes)
    runs = f"{len(found.runs)} run{'s' if len(found.runs) > 1 else ''}"
    say(f"{found.runs[0].name}: {runs}, at {sizes} executors of {found.slots_per_executor} slots")
    head = ("executors", "slots", "completion", "from", "to", "by waves", "by Ernest", "by 1/n", "constant")
    rows = [
        (
            str(point.executors),
            str(point.executors * found.slots_per_executor),
            *(_seconds(each) for each in (time, point.low_ms, point.high_ms)),
            *(_told(found.baselines.get(name), at) for name in ("waves", "ernest", "two points", "constant")),
        )
        for at, (point, time) in enumerate(zip(found.points, found.total_ms, strict=True))
    ]
    print_table("completion time; nine runs in ten lie between from and to", head, rows)
    say("")
    _show_stages(found)
    say("", *_answers(found))
    _notes(found)


def _show_stages(found: PredictedCurve) -> None:
    point = found.points[found.enough]
    every = _stages(found, point)
    least_s = SHORT * point.total_ms / MS
    shown = [one for one in every if one["takes_s"] + one["driver_s"] >= least_s]
    rows = [
        (
            f"{one['stage']} {one['name'][:MAX_STAGE_NAME]}",
            f"{one['tasks']:,}",
            f"{one['from_s']:.1f} s",
            f"{one['takes_s']:.1f} s",
            f"{one['driver_s']:.1f} s",
            one["bound_by"],
        )
        for one in shown[-MAX_STAGES_SHOWN:]
    ]
    title = f"stages that the end waits for, at {point.executors} executors"
    print_table(title, ("stage", "tasks", "from", "takes", "driver before", "bound by"), rows)
    if len(rows) < len(every):
        say(f"and {len(every) - len(rows)} stages of less than {SHORT:.0%} each; --json has all")


def _stages(found: PredictedCurve, point: JobPrediction) -> list[dict[str, Any]]:
    """Stages on the path that the end waits for, each with what bounds it."""
    job, schedule = point.based_on, point.schedule
    slots = point.executors * found.slots_per_executor
    rows = []
    for place in schedule.path():
        stage = job.stages[place]
        takes = float(schedule.ended_ms[place] - schedule.begun_ms[place])
        rows.append(
            {
                "stage": place,
                "name": stage.name,
                "tasks": len(stage.tasks),
                "from_s": float(schedule.begun_ms[place]) / MS,
                "takes_s": takes / MS,
                "driver_s": stage.wait_ms / MS,
                "waited_for_slots_s": float(schedule.waited_for_slots_ms[place]) / MS,
                "bound_by": _bound(stage.tasks.took_ms, slots, takes),
            }
        )
    return rows


def _bound(took_ms: Sequence[int], slots: int, takes_ms: float) -> str:
    """What bounds a stage: links, the number of slots, or its longest task."""
    if not took_ms:
        return "no tasks"
    shared, longest = sum(took_ms) / slots, max(took_ms)
    if takes_ms > 2 * max(shared, longest):
        return "links, or stages beside it"
    return "slots" if shared > longest / 2 and len(took_ms) > slots else "longest task"


def _answers(found: PredictedCurve) -> list[str]:
    best, enough = found.points[found.best], found.points[found.enough]
    lines: list[str] = []
    time = _seconds(found.total_ms[found.enough])
    if len(found.points) == 1:
        pass
    elif best.executors == found.points[-1].executors and enough.executors == best.executors:
        lines.append(f"more executors still pay at {best.executors}, the most that was asked for: {time}")
    else:
        lines.append(
            f"more than {enough.executors} executors no longer pay: {time} there, "
            f"{_seconds(found.total_ms[found.best])} at best, with {best.executors}"
        )
    if found.deadline_ms is not None:
        wanted = _seconds(found.deadline_ms)
        if found.fewest is None:
            nearest = _seconds(found.total_ms[found.best])
            lines.append(
                f"nothing ends in {wanted}; the nearest is {nearest}, with {best.executors} executors"
            )
        else:
            sure = "no number does" if found.surest is None else f"{found.surest}"
            lines.append(f"{found.fewest} executors end in {wanted}; for nineteen runs in twenty: {sure}")
    return lines


def _notes(found: PredictedCurve) -> None:
    note(f"model: {found.choice.model}; {found.choice.reason}")
    if found.width is not None:
        note(
            f"intervals have {found.width.factor:.2f} of their usual width, from {found.width.held_out} runs "
            "of these logs that were held out in turn"
        )
    beyond = [point.executors for point in found.points] != found.sizes
    if found.growth is None and beyond:
        note("runs of one size do not tell how task time grows with the cluster; a small growth is assumed")
    elif found.growth is not None:
        note(f"task time grows by {found.growth:.2%} with each executor that a stage keeps busy")
    asked = [point.executors for point in found.points]
    if max(asked) > FAR * max(found.sizes) or min(asked) * FAR < min(found.sizes):
        note("some sizes are more than four times from any known run, where errors are large")
    if not all(run.ended for run in found.runs):
        note("a run has not ended: what is predicted is the part that its log holds")


def summary(found: PredictedCurve) -> dict[str, Any]:
    """Predictions and answers, for `--json`."""
    best, enough = found.points[found.best], found.points[found.enough]
    return {
        "job": found.runs[0].name,
        "runs": len(found.runs),
        "known_executors": found.sizes,
        "slots_per_executor": found.slots_per_executor,
        "interval_width": None if found.width is None else found.width.factor,
        "runs_held_out": 0 if found.width is None else found.width.held_out,
        "model": found.choice.model,
        "held_out_errors": dict(found.choice.errors),
        "reason": found.choice.reason,
        "growth_per_executor": found.growth,
        "predictions": [
            {
                "executors": point.executors,
                "completion_s": time / MS,
                "low_s": point.low_ms / MS,
                "high_s": point.high_ms / MS,
                "by_waves_s": found.baselines["waves"][at] / MS,
                "by_ernest_s": found.baselines["ernest"][at] / MS if "ernest" in found.baselines else None,
                "by_two_points_s": (
                    found.baselines["two points"][at] / MS if "two points" in found.baselines else None
                ),
                "constant_s": found.baselines["constant"][at] / MS,
                "stages": _stages(found, point),
            }
            for at, (point, time) in enumerate(zip(found.points, found.total_ms, strict=True))
        ],
        "enough_executors": enough.executors,
        "fastest_executors": best.executors,
        "deadline_s": None if found.deadline_ms is None else found.deadline_ms / MS,
        "fewest_executors": found.fewest,
        "fewest_executors_surely": found.surest,
    }


def _told(times: list[float] | None, at: int) -> str:
    return "-" if times is None else _seconds(times[at])


def _seconds(ms: float) -> str:
    return f"{ms / MS:,.1f} s"
