"""How much the calls of one visit are slow together, which says how much a call and its copy would be.

On a machine that replicas share, what makes a call slow beyond its work and its waiting is mostly the
machine's: it strikes all calls of the moment, a copy too. A fan-out shows that without any copy, as all of
its calls go at once. Where one is among the slowest, its sisters tell how likely another one is. What only
one replica does (a pause) is left out: a copy at another replica escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from kwiken._profile import Floats
from kwiken.queueing._model import StageModel
from kwiken.queueing._stalls import Stalls

Bools = NDArray[np.bool_]
SLOW: Final = 0.95  # quantile of a stage's calls from which on they are slow
FEWEST: Final = 100  # sisters of slow calls, below which they say too little
RHO: Final = np.linspace(0.0, 0.98, 50)
STEPS: Final = 200  # of the integral


@dataclass(frozen=True)
class _Sisters:
    """Of slow calls.

    Attributes:
        count: how many they have.
        slow: how many of these are slow too.
    """

    count: int
    slow: int


def alike_as_sisters(stages: Mapping[str, StageModel], stalls: Mapping[str, Stalls]) -> dict[str, float]:
    """By stage: the correlation of normal scores that a call and its copy are taken to have.

    A stage with too few sisters gets what all stages together have: it runs on the same machine. Nothing is
    known, and 0 told, where slow calls were not seen to be pauses: they may be slow by themselves.

    Args:
        stages: by name.
        stalls: by stage, how its replicas paused, as `stalls_of` tells.
    """
    if not stalls:
        return dict.fromkeys(stages, 0.0)
    seen = {name: _seen(stage, stalls.get(name)) for name, stage in stages.items()}
    together = _Sisters(sum(one.count for one in seen.values()), sum(one.slow for one in seen.values()))
    return {name: _correlation(one if one.count >= FEWEST else together) for name, one in seen.items()}


def longest_alike_ms(stage: StageModel, stalls: Stalls | None) -> float:
    """The longest rest of calls that no pause caught, milliseconds; infinite where none caught any."""
    if stalls is None:
        return float("inf")
    free = stage.rest_ms[~stalls.caught & ~np.isnan(stage.rest_ms)]
    return float(free.max()) if len(free) else 0.0


def _seen(stage: StageModel, stalls: Stalls | None) -> _Sisters:
    calls = stage.calls_ms
    there = ~np.isnan(calls)
    if stalls is not None:
        there &= ~stalls.caught
    if calls.shape[1] == 1 or not there.any():
        return _Sisters(0, 0)
    slow = there & (np.nan_to_num(calls) > np.quantile(calls[there], SLOW))
    each, of_them = slow.sum(axis=1), there.sum(axis=1)
    return _Sisters(int(each @ (of_them - 1)), int(each @ (each - 1)))


def _correlation(sisters: _Sisters) -> float:
    """The correlation at which a Gaussian pair is slow together so often; 0 where nobody knows."""
    if sisters.count < FEWEST:
        return 0.0
    return float(np.interp(sisters.slow / sisters.count, _slow_too(), RHO))


def _slow_too() -> Floats:
    """(len(RHO),) ascending: the chance that one of a pair is slow where the other is, by correlation."""
    score = ndtri(SLOW + (1.0 - SLOW) * (np.arange(STEPS) + 0.5) / STEPS)
    beyond = (RHO[:, None] * score - ndtri(SLOW)) / np.sqrt(1.0 - RHO[:, None] ** 2)
    return np.asarray(ndtr(beyond).mean(axis=1))
