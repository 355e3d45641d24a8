"""Ranks of chosen units on drawn states of a cluster, and the formulas that they follow."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from math import ceil
from typing import Final

import numpy as np

from kwiken.allocator.sampling.sample_size import Guarantee, draws_for, failure_of
from kwiken.base.arrays import Floats
from papers.worlds.quality import encode, match_quality, offered_quality, quality_share
from papers.worlds.tasks.kinds import RESOURCES, TaskKind, drawn_kinds
from papers.worlds.tasks.units import UnitCluster

FIFTH: Final = Guarantee(0.8, 0.001)
SERVERS, UNITS = 100, 8
KINDS: Final = 24
DECISIONS: Final = 3000  # per state and sample size
STATES: Final = 4  # drawn for one seed
SIZES: Final = (8, 16, 32, 64)
GAP: Final = 0.01  # by which a rank may be coarse: one in 800 units and a tie
WINDOW: Final = 1000  # qualities that are remembered
MIN_SEEN: Final = 200  # qualities from which on the threshold is used
# Share of the candidates above the threshold, as a share of that which the guarantee allows. The quantile of
# a window of 1,000 is off by at most 0.04 in 999 of 1,000 windows, and half of a fifth leaves 0.1.
STRICTNESS: Final = 0.5


# Candidates are drawn one by one. Each quality that is seen goes into a window, whose upper quantile is the
# threshold: the first candidate at or above the threshold is taken. While the window is short, and when no
# draw reaches the threshold, the whole sample of the guarantee is drawn. The threshold is stricter than the
# promise, so that the promise is kept although a window is a sample too. The mean number of draws is about
# the inverse of the share that the threshold leaves.
class EarlyStop:
    """Sequential choice among draws for jobs of one kind.

    Args:
        guarantee: share of the candidates and probability that the complete sample would promise.
    """

    def __init__(self, guarantee: Guarantee) -> None:
        self._draws = guarantee.draws
        self._above = STRICTNESS * (1.0 - guarantee.quality)
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    @property
    def threshold(self) -> float | None:
        """Quality from which on a candidate is taken at once; None while too few were seen."""
        count = len(self._sorted)
        if count < MIN_SEEN:
            return None
        return self._sorted[count - max(1, ceil(self._above * count))]

    def choose(self, qualities: Iterable[float]) -> tuple[int, int]:
        """Draw candidates until one is good enough, or the sample is complete.

        Args:
            qualities: qualities of candidates in the order of their draws, a higher one is better; at least
                one, and as many as the guarantee needs where the population has them.

        Returns:
            Position of the chosen candidate, and the number of candidates that were drawn.
        """
        threshold = self.threshold
        best, place, drawn = float("-inf"), 0, 0
        for quality in qualities:
            if quality > best:
                best, place = quality, drawn
            drawn += 1
            self._remember(quality)
            if drawn >= self._draws or (threshold is not None and quality >= threshold):
                break
        return place, drawn

    def _remember(self, quality: float) -> None:
        self._recent.append(quality)
        insort(self._sorted, quality)
        if len(self._recent) > WINDOW:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]


def filled(load: float, seed: int) -> tuple[UnitCluster, list[TaskKind]]:
    """Cluster of equal servers with tasks of random kinds on a share of its units.

    Args:
        load: share of the units that are busy, 0 to 1.
    """
    rng = np.random.default_rng(seed)
    kinds = drawn_kinds(KINDS, 1, rng)
    units = UnitCluster([UNITS] * SERVERS, [0] * SERVERS)
    for unit in rng.permutation(len(units))[: int(load * len(units))].tolist():
        units.take(unit, kinds[int(rng.integers(KINDS))])
    return units, kinds


def code_ranks(units: UnitCluster, kind: TaskKind, rng: np.random.Generator) -> Floats:
    """Rank of each free unit by the quality code, from 0 to 1; ties by a fair coin.

    A rank is drawn within its step, so that few units have the law of many.
    """
    required = encode(kind.caused)
    by_server: dict[int, int] = {}
    free = units.free
    codes = []
    for unit in free:
        server = units.server_of[unit]
        if server not in by_server:
            pressure = [0] * RESOURCES
            for digit, resource in zip(units.digits(server, kind), kind.order, strict=True):
                pressure[resource] = digit
            by_server[server] = match_quality(offered_quality(pressure, kind.order), required, RESOURCES)
        codes.append(by_server[server])
    coins = rng.random(len(free)).tolist()
    order = sorted(range(len(free)), key=lambda place: (codes[place], coins[place]))
    ranks = np.empty(len(free))
    ranks[order] = (np.arange(len(free)) + rng.random(len(free))) / len(free)
    return ranks


def formulas() -> dict[str, float]:
    """Values that follow from the formula alone."""
    found = {f"failure {size}": failure_of(0.8, size) for size in SIZES}
    found["unloaded"] = draws_for(0.8, 1e-3)
    found["busy"] = draws_when_busy(FIFTH, 100, 8)
    found["hit 32"] = 1 - failure_of(1 - 8 / 100, 32)
    return found


def uniformity(seed: int) -> dict[str, float]:
    """Largest distance of the distribution of the best rank of a sample from `x ** R`, and misses."""
    rng, found = np.random.default_rng([seed, 7]), {}
    for size in SIZES:
        best = np.concatenate([_best_ranks(0.725, seed * 10 + state, size, rng) for state in range(STATES)])
        grid = np.linspace(0.0, 1.0, 201)
        measured = np.searchsorted(np.sort(best), grid, side="right") / len(best)
        found[f"distance {size}"] = float(np.abs(measured - grid**size).max())
        found[f"missed {size}"] = float((best <= FIFTH.quality).mean())
    return found


def _best_ranks(load: float, seed: int, size: int, rng: np.random.Generator) -> Floats:
    """Ranks of the best of many samples with replacement, for one job after another."""
    units, kinds = filled(load, seed)
    each = DECISIONS // KINDS
    found = []
    for kind in kinds:
        ranks = code_ranks(units, kind, rng)
        found.append(ranks[rng.integers(len(ranks), size=(each, size))].max(axis=1))
    return np.concatenate(found)


def guarantee_by_load(seed: int) -> dict[str, float]:
    """Misses of the guarantee above its binomial error, by load: largest excess in standard deviations."""
    rng = np.random.default_rng([seed, 8])
    worst = -np.inf
    for load in np.arange(0.1, 0.95, 0.1):
        for size in (8, 31):
            best = _best_ranks(float(load), seed, size, rng)
            allowed = FIFTH.quality**size
            error = np.sqrt(allowed * (1 - allowed) / len(best))
            worst = max(worst, ((best <= FIFTH.quality - GAP).mean() - allowed) / error)
    return {"excess": float(worst)}


def adequate_shares(seed: int) -> dict[str, float]:
    """Share of free units that are adequate for jobs of little and much demand, at half load."""
    units, kinds = filled(0.5, seed)
    found = {}
    for demand in (0.3, 0.8):
        kind = min(kinds, key=lambda one: abs(one.demand - demand))
        fine = [units.digits(units.server_of[unit], kind) <= kind.tolerated for unit in units.free]
        found[f"adequate {demand}"] = float(np.mean(fine))
    return found


def early_stops(seed: int) -> dict[str, float]:
    """Draws and ranks with an early stop at 60% load, the best fifth in 999 of 1,000 promised."""
    rng = np.random.default_rng([seed, 9])
    units, kinds = filled(0.6, seed)
    chosen, drawn = [], []
    for kind in kinds:
        stop = EarlyStop(FIFTH)
        ranks = code_ranks(units, kind, rng)
        for number in range(DECISIONS // 4):
            sample = rng.choice(ranks, FIFTH.draws, replace=False).tolist()
            place, count = stop.choose(sample)
            if number >= 50:  # noqa: PLR2004 - the window is filled by then
                chosen.append(sample[place])
                drawn.append(count)
    ranks_ = np.array(chosen)
    return {
        "draws": float(np.mean(drawn)),
        "rank": float(ranks_.mean()),
        "missed": float((ranks_ <= FIFTH.quality).mean()),
    }


def quality_of(units: UnitCluster, unit: int, kind: TaskKind) -> float:
    """Quality of a busy unit for the task that runs on it, from 0 to 1."""
    server = units.server_of[unit]
    count = units.neighbours[server]
    pressure = [
        min(round((total - own) / count), 99)
        for total, own in zip(units.sums[server], kind.caused, strict=True)
    ]
    code = match_quality(offered_quality(pressure, kind.order), encode(kind.caused), RESOURCES)
    return quality_share(code, RESOURCES)


def draws_when_busy(guarantee: Guarantee, units: int, good_and_free: int) -> int:
    """Draws among all units, busy ones too, when few of the good ones are free (specification of the source).

    Args:
        units: number of units, free or not.
        good_and_free: number of units of the wanted share that are free, 1 or more.
    """
    return draws_for(1.0 - good_and_free / units, guarantee.failure)
