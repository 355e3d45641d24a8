"""Drift test: share of late calls of each stage in the earlier and the later half of a profile's requests.

The time-outs of a plan are quantiles of observed latencies. Where the tail beyond them grows or shrinks, the
plan spends more or less than its budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile, StageProfile

# Name of a count of profiles whose requests, and the times of these, were drawn at random from histograms.
IN_HISTOGRAMS: Final = "requests_in_histograms"
LATE_SHARE = 0.05  # of the calls that count as late, where no plan gives a time-out
SIGNIFICANCE_LEVEL = 0.05  # probability of naming any stage though none changed
BLOCKS_PER_HALF = 10  # blocks of time whose spread gives the error: requests close in time are correlated
MIN_FACTOR = 1.2  # between the shares of late calls; a smaller change does not matter
MIN_LATE_CALLS = 10  # fewer tell nothing


@dataclass(frozen=True)
class Drift:
    """Change of a stage's share of late calls between the halves of a profile's requests.

    Attributes:
        after_ms: age from which a call counts as late, milliseconds: the plan's time-out, or the 95th
            percentile.
        earlier: share of late calls in the earlier half of the requests, 0 to 1.
        later: share of late calls in the later half, 0 to 1.
        p_value: probability of such a difference or a larger one in any stage if none changed (Holm), 0 to 1.
    """

    stage: str
    after_ms: float
    earlier: float
    later: float
    p_value: float


def drift(profile: Profile, *, after_ms: Mapping[str, float] | None = None) -> tuple[Drift, ...]:
    """Stages that changed between the earlier and the later half of a profile's requests.

    Args:
        after_ms: by stage: age from which a call is late, milliseconds, such as the time-outs of a plan; the
            95th percentile for stages left out.

    Returns:
        Stages that changed by a fifth or more, and significantly; the smallest p-value first. The test is
        Welch's, on shares of late calls by blocks of time, with Holm's correction (1979) for the number of
        stages. Nothing for a profile from histograms, which do not tell what was late when.
    """
    if IN_HISTOGRAMS in profile.counts:
        return ()
    order = np.argsort(profile.started_s, kind="stable")
    given = after_ms or {}
    tested = [
        found
        for stage in profile.stages
        if not stage.own_time and (found := _tested(stage, order, given.get(stage.name))) is not None
    ]
    return tuple(
        each
        for each in _holm(tested)
        if each.p_value <= SIGNIFICANCE_LEVEL and _factor(each.earlier, each.later) >= MIN_FACTOR
    )


def _factor(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low if low > 0 else np.inf


def _tested(stage: StageProfile, order: Ints, after_ms: float | None) -> Drift | None:
    """Test of one stage, with its uncorrected p-value; None where there are too few late calls."""
    distribution = stage.distribution
    if not len(distribution):
        return None
    age = float(distribution.quantile(np.array([1 - LATE_SHARE]))[0]) if after_ms is None else after_ms
    late, calls = _late(stage, distribution, age)[order], (~np.isnan(stage.calls_ms)).sum(axis=1)[order]
    if late.sum() < MIN_LATE_CALLS:
        return None
    halves = [_shares(late[part], calls[part]) for part in np.array_split(np.arange(len(order)), 2)]
    if any(len(shares) < BLOCKS_PER_HALF // 2 for shares in halves):
        return None
    earlier, later = (
        float(late[part].sum() / max(1, calls[part].sum()))
        for part in np.array_split(np.arange(len(order)), 2)
    )
    return Drift(stage.name, age, earlier, later, _welch(*halves))


def _late(stage: StageProfile, distribution: EmpiricalDistribution, age: float) -> Floats:
    """(n,): number of late calls of each request; a call cancelled before that age counts by its probability.

    Leaving cancelled calls out would leave out mostly late ones: where a plan was applied while traces were
    taken, its copies end late calls early, and the service would seem to have become faster.
    """
    late = (stage.calls_ms > age).astype(float)
    cut = stage.censored & (stage.calls_ms <= age)
    if cut.any():
        still = distribution.tail(stage.calls_ms[cut])
        beyond = distribution.tail(np.full(len(still), age))
        late[cut] = np.divide(beyond, still, out=np.zeros(len(still)), where=still > 0)
    return np.asarray(late.sum(axis=1))


def _shares(late: Floats, calls: Ints) -> Floats:
    """(b,): share of late calls in each block of time that has calls."""
    parts = np.array_split(np.arange(len(late)), BLOCKS_PER_HALF)
    blocks = [(late[part].sum(), calls[part].sum()) for part in parts]
    return np.array([few / many for few, many in blocks if many])


def _welch(one: Floats, other: Floats) -> float:
    """Two-sided p-value of Welch's test for equal means."""
    errors = np.array([values.var(ddof=1) / len(values) for values in (one, other)])
    total = float(errors.sum())
    if not total > 0:
        return float(one.mean() == other.mean())
    freedom = total**2 / float((errors**2 / np.array([len(one) - 1, len(other) - 1])).sum())
    from scipy.special import stdtr  # half of the time in which `fit --list` starts

    return 2.0 * float(stdtr(freedom, -abs(one.mean() - other.mean()) / np.sqrt(total)))


def _holm(tested: list[Drift]) -> list[Drift]:
    """Tests in ascending order of p-value, corrected for their number (Holm 1979)."""
    found, least = [], 0.0
    for rank, each in enumerate(sorted(tested, key=lambda one: one.p_value)):
        least = max(least, min(1.0, (len(tested) - rank) * each.p_value))
        found.append(Drift(each.stage, each.after_ms, each.earlier, each.later, least))
    return found
