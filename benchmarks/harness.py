"""What every benchmark hands over, and how ways of doing one thing are timed against each other.

Times of a shared machine swing, so nothing is timed on its own where there is something to compare it with:
the ways take turns (A B C A B C ...), and each round gives a ratio. The median ratio and its spread are the
result.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the results.

    Attributes:
        name: what was done.
        ours: median of our figure.
        unit: of `ours`, `target` and `theirs`.
        target: figure to reach; None for none.
        met: whether the target was reached; left out, a smaller figure is the better one.
        alternative: what it is compared with; empty for nothing.
        theirs: the alternative's median.
        ratio: median of theirs / ours, round by round.
        spread: lowest and highest of those ratios; of `ours` itself where there is no alternative.
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

    def __post_init__(self) -> None:
        """Judge the target where the benchmark did not."""
        if self.met is None and self.target is not None:
            object.__setattr__(self, "met", self.ours <= self.target)


LEAST_S = 0.02  # a shorter time is mostly what the way before it did to the caches


def timed(work: Work) -> float:
    """Seconds that one call takes; of short ones the mean of several in a row, as `timeit` does it."""
    start = time.perf_counter()
    work()
    once = time.perf_counter() - start
    if once >= LEAST_S:
        return once
    calls = math.ceil(LEAST_S / max(once, 1e-6))
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def alone(name: str, work: Work, *, rounds: int, unit: str, scale: float, target: float | None = None) -> Row:
    """Time one thing.

    Args:
        name: what it is.
        work: does it once.
        rounds: number of timings; one more goes before, unheard.
        unit: of the figures.
        scale: seconds times this is in the unit.
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
) -> Row:
    """Time two ways of doing one thing in turn; the arguments are those of `in_turn`."""
    (row,) = in_turn(name, work, [other], rounds=rounds, unit=unit, scale=scale, target=target)
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
) -> list[Row]:
    """Time several ways of doing one thing in turn, so that the machine's moods hit all of them.

    Args:
        name: what is done.
        work: our way, once.
        others: name of each alternative, and that way, once.
        rounds: number of turns; one more goes before, unheard.
        unit: of the figures.
        scale: seconds times this is in the unit.
        target: figure that ours is to reach.

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
        name: what was done.
        alternative: what it is compared with.
        pairs: our figure and the alternative's, round by round.
        unit: of the figures.
        target: figure that ours is to reach.
        least: or the ratio of theirs over ours that is to be reached.
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
    )
