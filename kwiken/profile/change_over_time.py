"""Whether a service changed while it was traced: are calls late more often in the later half than before?

A plan's time-outs are quantiles of what was seen. Where the tail beyond them grows or shrinks, a plan spends
more or less than it means to, so each stage's share of late calls is compared between the halves of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from kwiken.arrays import Floats, Ints
from kwiken.profile.distribution import EmpiricalDistribution, call_distribution
from kwiken.profile.profile import Profile, StageProfile

TAIL = 0.05  # share of the calls that are late, where no plan says
LEVEL = 0.05  # chance of naming any stage though none changed
BLOCKS = 10  # stretches of time in a half, whose spread tells chance: neighbours in time share their fate
LEAST_CHANGE = 1.2  # factor from which a change matters
FEWEST_LATE = 10
SHOWN = 3


@dataclass(frozen=True)
class Drift:
    """A stage whose calls became late more often, or less.

    Attributes:
        stage: its name.
        after_ms: age from which a call counts as late: the plan's time-out, or the 95th percentile.
        earlier: share of late calls in the earlier half of the requests.
        later: share in the later half.
        p_value: probability of such a difference, or of a larger one in any stage, if none changed (Holm).
    """

    stage: str
    after_ms: float
    earlier: float
    later: float
    p_value: float

    @property
    def words(self) -> str:
        """The change in a sentence."""
        return (
            f"{self.stage}: {self.earlier:.1%} of the calls took longer than {self.after_ms:.3g} ms in the "
            f"earlier half, {self.later:.1%} in the later"
        )


def drift(
    profile: Profile, *, after_ms: Mapping[str, float] | None = None, level: float = LEVEL
) -> tuple[Drift, ...]:
    """Stages that changed between the earlier and the later half of a profile's requests.

    Args:
        profile: what was learned.
        after_ms: by stage: from which age on a call is late, a plan's time-outs say; the 95th percentile for
            those that are left out.
        level: probability of naming any stage though none changed.

    Returns:
        Those that changed by a fifth or more and beyond chance, most telling first. The test is Welch's, on
        shares of late calls by stretches of time, with Holm's correction (1979) for the number of stages.
    """
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
        if each.p_value <= level and _factor(each.earlier, each.later) >= LEAST_CHANGE
    )


def _factor(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low if low > 0 else np.inf


def _tested(stage: StageProfile, order: Ints, after_ms: float | None) -> Drift | None:
    """A stage with its own chance of such a difference; None where there are too few late calls."""
    distribution = call_distribution(stage)
    if not len(distribution):
        return None
    age = float(distribution.quantile(np.array([1 - TAIL]))[0]) if after_ms is None else after_ms
    late, calls = _late(stage, distribution, age)[order], (~np.isnan(stage.calls_ms)).sum(axis=1)[order]
    if late.sum() < FEWEST_LATE:
        return None
    halves = [_shares(late[part], calls[part]) for part in np.array_split(np.arange(len(order)), 2)]
    if any(len(shares) < BLOCKS // 2 for shares in halves):
        return None
    earlier, later = (
        float(late[part].sum() / max(1, calls[part].sum()))
        for part in np.array_split(np.arange(len(order)), 2)
    )
    return Drift(stage.name, age, earlier, later, _welch(*halves))


def _late(stage: StageProfile, distribution: EmpiricalDistribution, age: float) -> Floats:
    """(n,): late calls of each request; one cut before that age counts by its chance to have become late.

    To leave such calls out would leave out late ones above all: where a plan came while traces were taken,
    its copies end late calls early, and the service would seem to have become faster.
    """
    late = (stage.calls_ms > age).astype(float)
    cut = stage.censored & (stage.calls_ms <= age)
    if cut.any():
        still = distribution.tail(stage.calls_ms[cut])
        beyond = distribution.tail(np.full(len(still), age))
        late[cut] = np.divide(beyond, still, out=np.zeros(len(still)), where=still > 0)
    return np.asarray(late.sum(axis=1))


def _shares(late: Floats, calls: Ints) -> Floats:
    """Share of late calls in each stretch of time that has calls."""
    blocks = [(late[part].sum(), calls[part].sum()) for part in np.array_split(np.arange(len(late)), BLOCKS)]
    return np.array([few / many for few, many in blocks if many])


def _welch(one: Floats, other: Floats) -> float:
    """Two-sided chance of so different means."""
    errors = np.array([values.var(ddof=1) / len(values) for values in (one, other)])
    total = float(errors.sum())
    if not total > 0:
        return float(one.mean() == other.mean())
    freedom = total**2 / float((errors**2 / np.array([len(one) - 1, len(other) - 1])).sum())
    return 2.0 * float(stdtr(freedom, -abs(one.mean() - other.mean()) / np.sqrt(total)))


def _holm(tested: list[Drift]) -> list[Drift]:
    """The same, with chances corrected for their number (Holm 1979)."""
    found, least = [], 0.0
    for rank, each in enumerate(sorted(tested, key=lambda one: one.p_value)):
        least = max(least, min(1.0, (len(tested) - rank) * each.p_value))
        found.append(Drift(each.stage, each.after_ms, each.earlier, each.later, least))
    return found


def drift_notes(found: tuple[Drift, ...]) -> tuple[str, ...]:
    """What a reader should know of stages that changed, in words.

    Args:
        found: stages that changed while they were traced.
    """
    if not found:
        return ()
    told = "; ".join(each.words for each in found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more stages" if len(found) > SHOWN else ""
    return (
        f"the service changed while it was traced ({told}{more}): trace it again, or fit with --half-life",
    )
