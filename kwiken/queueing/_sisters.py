"""How much the calls of one visit are slow together, which says how much a call and its copy would be.

On a machine that replicas share, what makes a call slow beyond its work and its waiting is mostly the
machine's: it strikes all calls of the moment, a copy too. A fan-out shows that without any copy, as all of
its calls go at once. Where one is among the slowest, its sisters tell how likely another one is. What only
one replica does (a pause) is left out: a copy at another replica escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
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
    seen = np.array([_seen(stage, stalls.get(name)) for name, stage in stages.items()])
    count, slow = np.where(seen[:, :1] >= FEWEST, seen, seen.sum(axis=0)).T
    rho = np.interp(slow / np.maximum(1, count), _slow_too(), RHO)
    return dict(zip(stages, np.where(count >= FEWEST, rho, 0.0).tolist(), strict=True))


def longest_alike_ms(stage: StageModel, stalls: Stalls | None) -> float:
    """The longest rest of calls that no pause caught, milliseconds; infinite where none caught any."""
    if stalls is None:
        return inf
    return float(stage.rest_ms[_free(stage, stalls)].max(initial=0.0))


def _free(stage: StageModel, stalls: Stalls | None) -> Bools:
    """(n, width): the calls that no pause caught."""
    there = ~np.isnan(stage.calls_ms)
    return there if stalls is None else there & ~stalls.caught


def _seen(stage: StageModel, stalls: Stalls | None) -> tuple[int, int]:
    """How many sisters a stage's slow calls have, and how many of these are slow too."""
    free = _free(stage, stalls)
    if not free.any():
        return 0, 0
    slow = free & (np.nan_to_num(stage.calls_ms) > np.quantile(stage.calls_ms[free], SLOW))
    each, of_them = slow.sum(axis=1), free.sum(axis=1)
    return int(each @ (of_them - 1)), int(each @ (each - 1))


def _slow_too() -> Floats:
    """(len(RHO),) ascending: the chance that one of a Gaussian pair is slow where the other is, by `RHO`."""
    score = ndtri(SLOW + (1.0 - SLOW) * (np.arange(STEPS) + 0.5) / STEPS)
    beyond = (RHO[:, None] * score - ndtri(SLOW)) / np.sqrt(1.0 - RHO[:, None] ** 2)
    return np.asarray(ndtr(beyond).mean(axis=1))
