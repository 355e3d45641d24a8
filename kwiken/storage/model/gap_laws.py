"""Laws of the gaps between I/Os: quantiles of the trace, and the families of the published model."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.storage.model.document import GapLaw

QUANTILES: Final = 129  # of a law
MIN_GAPS: Final = 100  # of a law of its own
FAMILIES: Final = ("static", "normal", "exponential", "gamma", "poisson")
TICK_MS: Final = 1.0  # of the Poisson family


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
        drawn = np.sort(draw_family(family, mean, float(gaps_ms.std()), size, rng))
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


def draw_family(
    family: str, mean_ms: float, sd_ms: float | None, size: int, rng: np.random.Generator
) -> Floats:
    """(n,) gaps of a family with this mean, milliseconds, none below 0.

    Args:
        family: name of a family, one of `FAMILIES`.
        mean_ms: mean gap, milliseconds.
        sd_ms: standard deviation, milliseconds; None where it is not told.
        size: number of gaps to draw.

    Raises:
        InputError: an unknown family.
    """
    if family == "static" or mean_ms <= 0:
        return np.full(size, mean_ms)
    if family == "normal":
        sd = 0.25 * mean_ms if sd_ms is None else sd_ms
        drawn = np.maximum(rng.normal(mean_ms, sd, size), 0.0)
        # Cut at 0 the mean rises; the factor takes it back.
        factor = mean_ms / max(float(drawn.mean()), 1e-300) if size else 1.0
        return np.asarray(drawn * factor, dtype=np.float64)
    if family == "exponential":
        return rng.exponential(mean_ms, size)
    if family == "gamma":
        shape = (mean_ms / sd_ms) ** 2 if sd_ms else 1.0
        return rng.gamma(shape, mean_ms / shape, size)
    if family == "poisson":
        return rng.poisson(mean_ms / TICK_MS, size).astype(np.float64) * TICK_MS
    raise InputError(f"{family!r} is no family of gaps; known: {', '.join(FAMILIES)}", where="gaps")


def draw_gaps(
    laws: list[GapLaw],
    read: Bools,
    sequential: Bools,
    joined: Bools,
    rng: np.random.Generator,
    family: str | None = None,
) -> Floats:
    """(n,) gap before each I/O, milliseconds.

    Probabilities are spread evenly over the I/Os of a law, so that means hardly vary with the seed.

    Args:
        laws: overall law first, as `laws_of` returns them.
        read: (n,) whether an I/O reads.
        sequential: (n,) whether an I/O is sequential.
        joined: (n,) whether the I/O before is of the same stream.
        family: family to draw from instead of the trace's quantiles; `auto` for each law's own.
    """
    law_number = np.zeros(len(read), dtype=np.int64)
    for number, law in enumerate(laws[1:], start=1):
        law_number[(read == law.read) & (sequential == law.sequential) & (joined == law.joined)] = number
    gaps = np.empty(len(read))
    for number, law in enumerate(laws):
        chosen = np.flatnonzero(law_number == number)
        if family is not None:
            name = law.family if family == "auto" else family
            gaps[chosen] = draw_family(name, law.mean_ms, law.sd_ms, len(chosen), rng)
            continue
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
