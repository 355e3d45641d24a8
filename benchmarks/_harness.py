"""What every benchmark hands over, and how two ways of doing one thing are timed against each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the results.

    Attributes:
        name: what was done.
        ours: median of our figure.
        target: figure to reach; None for none.
        unit: of `ours` and `target`.
        alternative: what it is compared with, and its own figure; empty for nothing.
        ratio: median of alternative / ours, round by round: above 1, ours is the smaller figure.
        spread: lowest and highest of those ratios; of `ours` itself where there is no alternative.
    """

    name: str
    ours: float
    target: float | None
    unit: str
    alternative: str = ""
    ratio: float | None = None
    spread: tuple[float, float] | None = None


def timed(work: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alone(
    name: str, work: Callable[[], object], *, rounds: int, unit: str, scale: float, target: float
) -> Row:
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
        name=name,
        ours=statistics.median(times),
        target=target,
        unit=unit,
        spread=(min(times), max(times)),
    )


def side_by_side(
    name: str,
    work: Callable[[], object],
    other: tuple[str, Callable[[], object]],
    *,
    rounds: int,
    unit: str,
    scale: float,
    target: float | None = None,
) -> Row:
    """Time two ways of doing one thing in turn, so that the machine's moods hit both.

    Args:
        name: what is done.
        work: our way, once.
        other: name of the alternative, and that way, once.
        rounds: number of pairs; one more goes before, unheard.
        unit: of the figures.
        scale: seconds times this is in the unit.
        target: figure that ours is to reach.
    """
    label, rival = other
    timed(work), timed(rival)
    pairs = [(timed(work) * scale, timed(rival) * scale) for _ in range(rounds)]
    ratios = [theirs / ours for ours, theirs in pairs]
    return Row(
        name=name,
        ours=statistics.median(ours for ours, _ in pairs),
        target=target,
        unit=unit,
        alternative=f"{label}: {statistics.median(theirs for _, theirs in pairs):.3g} {unit}",
        ratio=statistics.median(ratios),
        spread=(min(ratios), max(ratios)),
    )
