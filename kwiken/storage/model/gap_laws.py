"""Laws of the gaps between I/Os: quantiles of the trace, and the families of the published model."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.storage.model.document import GapLaw

QUANTILES: Final = 129  # of a law
MIN_GAPS: Final = 100  # of a law of its own


def law_of(gaps_ms: Floats, *, read: bool = True, sequential: bool = False, joined: bool = False) -> GapLaw:
    """Law of some gaps.

    Args:
        gaps_ms: (n,) gaps, milliseconds; at least one.
    """
    mean, sd = float(gaps_ms.mean()), float(gaps_ms.std())
    return GapLaw(
        read=read,
        sequential=sequential,
        joined=joined,
        count=len(gaps_ms),
        mean_ms=mean,
        sd_ms=sd,
        family=family_of(gaps_ms),
        quantiles_ms=np.quantile(gaps_ms, np.linspace(0, 1, QUANTILES)).tolist(),
    )


def laws_of(gaps_ms: Floats, read: Bools, sequential: Bools, joined: Bools) -> list[GapLaw]:
    """The overall law, and one for each of eight groups with `MIN_GAPS` gaps or more.

    Args:
        gaps_ms: (n,) gap before each I/O, milliseconds.
        read: (n,) whether an I/O reads.
        sequential: (n,) whether an I/O is sequential.
        joined: (n,) whether the I/O before is of the same stream.
    """
    laws = [law_of(gaps_ms)]
    for number in range(8):
        wanted = (bool(number & 1), bool(number & 2), bool(number & 4))
        chosen = (read == wanted[0]) & (sequential == wanted[1]) & (joined == wanted[2])
        if chosen.sum() >= MIN_GAPS:
            laws.append(law_of(gaps_ms[chosen], read=wanted[0], sequential=wanted[1], joined=wanted[2]))
    return laws


def family_of(gaps_ms: Floats) -> str:
    """Family of gaps: static by their coefficient of variation, else the nearest by Kolmogorov-Smirnov."""
    mean = float(gaps_ms.mean())
    if mean <= 0:
        return "static"
    spread = float(gaps_ms.std()) / mean
    if spread < 0.1:  # noqa: PLR2004 - bounds of the coefficient of variation
        return "static"
    rng = np.random.default_rng(0)
    size = min(len(gaps_ms), 4000)
    seen = np.quantile(gaps_ms, (np.arange(size) + 0.5) / size)
    distances = {}
    for family in ("normal", "exponential", "gamma"):
        drawn = np.sort(_drawn(family, mean, float(gaps_ms.std()), size, rng))
        distances[family] = ks_distance(seen, drawn)
    return min(distances, key=lambda family: distances[family])


def ks_distance(first: Floats, second: Floats) -> float:
    """Largest distance of two empirical distributions, a share from 0 to 1."""
    one, two = np.sort(first), np.sort(second)
    points = np.concatenate((one, two))
    return float(
        np.abs(
            np.searchsorted(one, points, side="right") / len(one)
            - np.searchsorted(two, points, side="right") / len(two)
        ).max()
    )


def _drawn(family: str, mean_ms: float, sd_ms: float, size: int, rng: np.random.Generator) -> Floats:
    """(n,) gaps of a family with this mean, milliseconds, none below 0."""
    if family == "normal":
        drawn = np.maximum(rng.normal(mean_ms, sd_ms, size), 0.0)
        # Cut at 0 the mean rises; the factor takes it back.
        return np.asarray(drawn * (mean_ms / max(float(drawn.mean()), 1e-300)), dtype=np.float64)
    if family == "exponential":
        return rng.exponential(mean_ms, size)
    shape = (mean_ms / sd_ms) ** 2
    return rng.gamma(shape, mean_ms / shape, size)


def draw_gaps(
    laws: list[GapLaw], read: Bools, sequential: Bools, joined: Bools, rng: np.random.Generator
) -> Floats:
    """(n,) gap before each I/O, milliseconds.

    Probabilities are spread evenly over the I/Os of a law, so that means hardly vary with the seed.

    Args:
        laws: overall law first, as `laws_of` returns them.
        read: (n,) whether an I/O reads.
        sequential: (n,) whether an I/O is sequential.
        joined: (n,) whether the I/O before is of the same stream.
    """
    law_number = np.zeros(len(read), dtype=np.int64)
    for number, law in enumerate(laws[1:], start=1):
        law_number[(read == law.read) & (sequential == law.sequential) & (joined == law.joined)] = number
    gaps = np.empty(len(read))
    for number, law in enumerate(laws):
        chosen = np.flatnonzero(law_number == number)
        even = (rng.permutation(len(chosen)) + rng.random(len(chosen))) / max(len(chosen), 1)
        gaps[chosen] = _from_quantiles(law, even)
    return gaps


def _from_quantiles(law: GapLaw, even: Floats) -> Floats:
    """(n,) gaps at these probabilities; the longest gaps are bent so that the mean is the law's."""
    quantiles = np.asarray(law.quantiles_ms)
    bins = len(quantiles) - 1
    drawn: Floats = np.interp(even, np.linspace(0, 1, bins + 1), quantiles)
    low, high = quantiles[-2], quantiles[-1]
    if high > low:
        below = float((quantiles[1:-1] + quantiles[:-2]).sum()) / 2
        share = min(max((law.mean_ms * bins - below - low) / (high - low), 0.01), 0.99)
        last = even > 1 - 1 / bins
        within = (even[last] - (1 - 1 / bins)) * bins
        drawn[last] = low + (high - low) * within ** (1 / share - 1)
    return drawn
