"""Correlation between pairs of stages, and between calls and their copies (Kwiken section 2.1.2).

Plans take stages as independent, and copies as correlated with their calls as far as pairs show.
"""

from __future__ import annotations

import msgspec
import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.profile.profile import Profile, StageProfile

LOW_CORRELATION, HIGH_CORRELATION = 0.1, 0.5  # the source's bounds of little and of much correlation
MIN_JOINT_REQUESTS = 30  # of both stages of a pair, or pairs of call and copy: fewer tell nothing


class JointSlowness(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of nearly independent and of correlated pairs, by Pearson's correlation of latencies.

    Attributes:
        pairs: number of pairs with enough requests and varying latencies.
        low: share of the pairs whose correlation is below 0.1.
        high: share of the pairs whose correlation is above 0.5.
    """

    pairs: int
    low: float
    high: float


def joint_stages(profile: Profile) -> JointSlowness | None:
    """Correlation of pairs of stages over the requests that called both; None without such a pair.

    The latency of a stage is that of its last call. A request's own time counts as no stage here.
    """
    called = [stage for stage in profile.stages if not stage.own_time]
    latencies = [np.where(stage.visited, stage.latency_ms, np.nan) for stage in called]
    return _counted(
        [
            _pearson(first, second)
            for place, first in enumerate(latencies)
            for second in latencies[place + 1 :]
        ]
    )


def joint_copies(profile: Profile) -> JointSlowness | None:
    """Correlation of calls and copies that both ended, a value a stage; None where no stage has enough."""
    return _counted([_of_copies(stage) for stage in profile.stages])


def _of_copies(stage: StageProfile) -> float | None:
    if stage.pairs_ms is None or stage.pairs_cut is None:
        return None
    ended = stage.pairs_ms[~stage.pairs_cut.any(axis=1)]
    return _pearson(ended[:, 0], ended[:, 1])


def _pearson(first: Floats, second: Floats) -> float | None:
    both = ~(np.isnan(first) | np.isnan(second))
    if both.sum() < MIN_JOINT_REQUESTS or not (first[both].std() > 0 and second[both].std() > 0):
        return None
    return float(np.corrcoef(first[both], second[both])[0, 1])


def _counted(correlations: list[float | None]) -> JointSlowness | None:
    found = np.array([each for each in correlations if each is not None])
    if not len(found):
        return None
    return JointSlowness(
        pairs=len(found),
        low=float((found < LOW_CORRELATION).mean()),
        high=float((found > HIGH_CORRELATION).mean()),
    )
