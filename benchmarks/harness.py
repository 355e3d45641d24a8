"""Benchmark harness: rows of results, and interleaved timing of alternatives.

Times on a shared machine vary, so alternatives are timed in turn (A B C A B C ...), and each round gives a
ratio. The median ratio and its range are the result.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the results.

    Attributes:
        name: name of the task.
        ours: median of our figure.
        unit: unit of `ours`, `target` and `theirs`.
        target: figure to reach; None for none.
        met: True if the target was reached; if left out, `ours` must be at most the target.
        alternative: name of the alternative; empty for none.
        theirs: median of the alternative's figure.
        ratio: median over the rounds of theirs / ours.
        spread: lowest and highest of these ratios; without an alternative, of `ours` itself.
        least: ratio that was to be reached, where the target is one; None otherwise.
    """

    name: str
    ours: float
    unit: str
    target: float | None = None
    met: bool | None = None
    alternative: str = ""
    theirs: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    least: float | None = None

    def __post_init__(self) -> None:
        """Judge the target where the benchmark did not."""
        if self.met is None and self.target is not None:
            object.__setattr__(self, "met", self.ours <= self.target)


def processor_s(pid: int) -> float:
    """Processor time of a process so far, with that of its threads, seconds."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


Z_95 = 1.96  # 97.5% quantile of the normal distribution
MIN_TIMED_S = 0.02  # a shorter time mostly shows the state of the caches


def timed(work: Work) -> float:
    """Seconds of one call; for short calls the mean of several in a row, as `timeit` does it."""
    start = time.perf_counter()
    work()
    once = time.perf_counter() - start
    if once >= MIN_TIMED_S:
        return once
    calls = math.ceil(MIN_TIMED_S / max(once, 1e-6))
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def alone(name: str, work: Work, *, rounds: int, unit: str, scale: float, target: float | None = None) -> Row:
    """Time one thing.

    Args:
        name: name of the task.
        work: function that does the task once.
        rounds: number of timings, 1 or more; one more before them is a warm-up.
        unit: unit of the figures.
        scale: factor from seconds to the unit.
        target: figure to reach.
    """
    timed(work)
    times = [timed(work) * scale for _ in range(rounds)]
    return Row(
        name=name, ours=statistics.median(times), target=target, unit=unit, spread=(min(times), max(times))
    )


def side_by_side(
    name: str,
    work: Work,
    other: tuple[str, Work],
    *,
    rounds: int,
    unit: str,
    scale: float,
    target: float | None = None,
    least: float | None = None,
) -> Row:
    """Time two ways of doing one thing in turn; the arguments are those of `in_turn`."""
    (row,) = in_turn(name, work, [other], rounds=rounds, unit=unit, scale=scale, target=target, least=least)
    return row


def in_turn(
    name: str,
    work: Work,
    others: Sequence[tuple[str, Work]],
    *,
    rounds: int,
    unit: str,
    scale: float,
    target: float | None = None,
    least: float | None = None,
) -> list[Row]:
    """Time several ways of doing one thing in turn, so that changes of the machine's load hit all of them.

    Args:
        name: name of the task.
        work: function that does the task once, our way.
        others: name of each alternative, and a function that does the task once, its way.
        rounds: number of turns, 1 or more; one more before them is a warm-up.
        unit: unit of the figures.
        scale: factor from seconds to the unit.
        target: figure that ours is to reach; None for none.
        least: ratio of the first alternative's figure over ours to reach, not a target; None for none.

    Returns:
        A row for each alternative.
    """
    ways = [work, *(rival for _, rival in others)]
    for way in ways:
        timed(way)
    turns = [[timed(way) * scale for way in ways] for _ in range(rounds)]
    return [
        paired(
            name,
            label,
            [(turn[0], turn[index]) for turn in turns],
            unit=unit,
            target=target,
            least=least if index == 1 else None,
        )
        for index, (label, _) in enumerate(others, start=1)
    ]


def paired(
    name: str,
    alternative: str,
    pairs: Sequence[tuple[float, float]],
    *,
    unit: str,
    target: float | None = None,
    least: float | None = None,
) -> Row:
    """Compare figures that were taken in turn.

    Args:
        name: name of the task.
        alternative: name of the alternative.
        pairs: our figure and the alternative's, one pair a round.
        unit: unit of the figures.
        target: figure that ours is to reach; None for none.
        least: ratio of theirs over ours to reach, in place of a target; None for none.
    """
    ratios = [theirs / ours for ours, theirs in pairs]
    ratio, rival = statistics.median(ratios), statistics.median(theirs for _, theirs in pairs)
    return Row(
        name=name,
        ours=statistics.median(ours for ours, _ in pairs),
        target=target if least is None else rival / least,
        met=None if least is None else ratio >= least,
        unit=unit,
        alternative=alternative,
        theirs=rival,
        ratio=ratio,
        spread=(min(ratios), max(ratios)),
        least=least,
    )


def median_interval(figures: Sequence[float]) -> tuple[float, float]:
    """Confidence interval, of 95% or a little more, of the median of what figures are drawn from.

    The number of figures below the median is binomial, whatever their distribution. So the interval lies
    between two of the sorted figures, whose ranks are here taken from the normal approximation.

    Args:
        figures: independent figures, 1 or more; of very few, the interval is that of the lowest and highest.
    """
    ordered = sorted(figures)
    half = Z_95 * math.sqrt(len(ordered)) / 2
    low = math.floor((len(ordered) - 1) / 2 - half)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, len(ordered) - 1 - low)]
