"""Widths of intervals from runs held out in turn: split conformal prediction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.replay.predictor import JobPrediction, Predictor

COVERED: Final = 0.9  # share of the runs that an interval holds
MIN_HELD_OUT: Final = 9  # runs: of fewer, none bounds nine of ten
MAX_HELD_OUT: Final = 200  # runs that are held out
MIN_WIDTH, MAX_WIDTH = 0.25, 4.0  # factor of the widths


@dataclass(frozen=True)
class IntervalWidth:
    """Factor of the widths of intervals, and how many runs held out it rests on.

    Attributes:
        factor: factor of the widths without runs held out, from 0.25 to 4.
        held_out: number of runs that were held out.
    """

    factor: float
    held_out: int


def width_needed(prediction: JobPrediction, actual_ms: float) -> float:
    """Share of the interval's width, on the side where the run lies, that reaches the run.

    Args:
        actual_ms: completion time of the run, milliseconds.
    """
    away = actual_ms - prediction.total_ms
    side = prediction.high_ms if away > 0 else prediction.low_ms
    width = abs(side - prediction.total_ms)
    return abs(away) / width if width > 0 else math.inf if away else 0.0


def conformal_width(needed: Iterable[float]) -> float | None:
    """Factor that holds nine of ten runs like those held out; None for too few of them.

    With n runs held out that are exchangeable with the next one, the ceil(0.9 (n + 1))-th smallest share
    holds the next run with a probability of nine in ten or more.

    Args:
        needed: shares of `width_needed`, each 0 or more.
    """
    ordered = sorted(needed)
    rank = math.ceil(COVERED * (len(ordered) + 1))
    return ordered[rank - 1] if len(ordered) >= MIN_HELD_OUT and rank <= len(ordered) else None


def interval_width(groups: Sequence[Sequence[BatchJob]]) -> IntervalWidth | None:
    """Factor of the widths from runs held out in turn; None where there are fewer than nine.

    Each run of a job with several is predicted from the others. Jobs take turns, so that none with many runs
    stands for all.
    """
    turns = [
        (group, place)
        for place in range(max((len(group) for group in groups), default=0))
        for group in groups
        if place < len(group) > 1
    ]
    needed = []
    for group, place in turns[:MAX_HELD_OUT]:
        run = group[place]
        try:
            predictor = Predictor([other for at, other in enumerate(group) if at != place])
        except InputError:
            continue  # the others have no task times
        if run.n_executors > 0 and run.ended:
            needed.append(width_needed(predictor.at(run.n_executors), run.took_ms))
    factor = conformal_width(needed)
    if factor is None:
        return None
    return IntervalWidth(min(max(factor, MIN_WIDTH), MAX_WIDTH), len(needed))
