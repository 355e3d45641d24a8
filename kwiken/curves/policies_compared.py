"""Policies of reissue at equal cost, to compare: also those of two copies, which the runtime does not deploy.

Every policy here mixes races whose copies have a law that can be written down: two copies at one time are
one copy with the law of the faster; a copy at `d` and another at `d + w` are one copy whose time passes `t`
if the first takes longer than `t` and the second longer than `t - w`. So the closed form of one copy serves
all. Kwiken section 5.2.1 names single, double and immediate; SingleR and DoubleR are Kaler et al. 2017's.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kwiken.arrays import Floats
from kwiken.curves.curve import GRID, reissue_curve
from kwiken.curves.fan_out import RankedCalls, slowest_moments
from kwiken.errors import InputError
from kwiken.profile import Pool

FIRST_SHARES = (0.25, 0.5, 0.75, 0.9)  # of DoubleR's cost that go to its first copy
MOST_CALLS = 4000  # that DoubleR looks at


def compare_policies(calls_ms: Floats, fractions: Iterable[float]) -> dict[str, Floats]:
    """Variance that each policy leaves at equal cost.

    After Kwiken section 5.2.1; SingleR and DoubleR: Kaler et al. 2017.

    Args:
        calls_ms: (n,) latencies of single calls, milliseconds; copies are drawn from them independently.
        fractions: g costs, as copies per call, above 0 and at most 1.

    Returns:
        By policy (`single`, `double`, `immediate`, `single_r`, `double_r`): (g,) variance over that without
        copies. DoubleR is searched over a grid of its two ages and of the share of its first copy, so what
        it shows is an upper bound of its best.

    Raises:
        InputError: for a cost outside (0, 1], or latencies that `reissue_curve` refuses or that do not vary.
    """
    costs = np.asarray(list(fractions), dtype=float)
    if not len(costs) or not ((costs > 0) & (costs <= 1)).all():
        raise InputError("must be shares above 0 and at most 1", where="fractions")
    calls = np.asarray(calls_ms, dtype=float).ravel()
    curve = reissue_curve(calls)
    if not curve.variance[0] > 0:
        raise InputError("all calls take the same time: there is nothing to compare", where="calls_ms")
    pool, ranked = curve.pool, RankedCalls.of(calls)
    single = [curve.moments(curve.policy(cost, coin=1.0))[1] for cost in costs.tolist()]
    best = [curve.moments(curve.policy(cost))[1] for cost in costs.tolist()]
    twice = _with_copies(ranked, faster_of_two(pool), pool, costs / 2)
    found = {
        "single": np.array(single),
        "double": twice,
        "immediate": _mixed(ranked, pool, np.zeros(1), costs),
        "single_r": np.array(best),
    }
    ratios = {name: values / curve.variance[0] for name, values in found.items()}
    return {**ratios, "double_r": _double_r(calls, costs, ratios["single_r"])}


def faster_of_two(pool: Pool) -> Pool:
    """The law of the faster of two independent calls."""
    upto = 1.0 - (1.0 - pool.cdf) ** 2
    return Pool(pool.values, np.diff(upto, prepend=0.0))


def staggered(pool: Pool, wait_ms: float) -> Pool:
    """The law of the faster of a copy sent now and one sent `wait_ms` later."""
    values = np.unique(np.concatenate((pool.values, pool.values + wait_ms)))
    upto = 1.0 - pool.tail(values) * np.where(values >= wait_ms, pool.tail(values - wait_ms), 1.0)
    return Pool(values, np.diff(upto, prepend=0.0))


def _with_copies(calls: RankedCalls, copies: Pool, ages: Pool, fractions: Floats) -> Floats:
    outs = ages.time_outs(fractions)
    found = []
    for after, coin in zip(outs.after_ms, outs.probability, strict=True):
        mean, square = slowest_moments(calls, copies, np.array([after]), probability=float(coin))
        found.append(float(square[0] - mean[0] ** 2))
    return np.array(found)


def _mixed(calls: RankedCalls, copies: Pool, after_ms: Floats, coins: Floats) -> Floats:
    """(coins,): variance with a coin in front of a copy at one age."""
    ends = np.array(slowest_moments(calls, copies, np.append(after_ms, np.inf)))
    mean, square = ends[:, 1:] + coins * (ends[:, :1] - ends[:, 1:])
    return np.asarray(square - mean * mean)


def _double_r(calls: Floats, costs: Floats, at_most: Floats) -> Floats:
    """(g,) ratios: the best of a grid of two ages and two coins, SingleR (no second copy) included.

    Few calls are looked at, so what counts is how much less than SingleR's is left of *their* variance.
    """
    calls = calls[:: max(1, len(calls) // MOST_CALLS)]
    pool, ranked = Pool.of(calls), RankedCalls.of(calls)
    curve = reissue_curve(calls)
    best = one_copy = np.array([curve.moments(curve.policy(cost))[1] for cost in costs.tolist()])
    outs = pool.time_outs(np.asarray(GRID[1:]))
    alone = np.array(slowest_moments(ranked, pool, np.array([np.inf])))[:, 0]
    ones = np.array(slowest_moments(ranked, pool, outs.after_ms)).T
    for i, first in enumerate(outs.after_ms.tolist()):
        for k, second in enumerate(outs.after_ms.tolist()):
            if second <= first:
                continue
            both = np.array(slowest_moments(ranked, staggered(pool, second - first), np.array([first])))[:, 0]
            missed = float(pool.tail(np.array([second - first]))[0])
            best = np.minimum(
                best,
                _two_coins(
                    costs,
                    (float(pool.tail(np.array([first]))[0]), float(pool.tail(np.array([second]))[0]), missed),
                    (alone, ones[i], ones[k], both),
                ),
            )
    return np.asarray(at_most * np.divide(best, one_copy, out=np.ones(len(costs)), where=one_copy > 0))


def _two_coins(
    costs: Floats, tails: tuple[float, float, float], moments: tuple[Floats, Floats, Floats, Floats]
) -> Floats:
    """(g,): least variance over splits of the cost between a first and a second copy.

    Args:
        costs: copies per call.
        tails: share of calls older than the first age, than the second, and of first copies that take
            longer than the time between them.
        moments: mean and mean square without copies, with the first, with the second, and with both.
    """
    late, later, missed = tails
    none, one, two, both = moments
    best = np.full(len(costs), np.inf)
    for share in FIRST_SHARES:
        q1 = costs * share / late
        q2 = costs * (1 - share) / (later * (1 - q1 + q1 * missed))
        mean, square = (
            (1 - q1) * (1 - q2) * none[m]
            + q1 * (1 - q2) * one[m]
            + (1 - q1) * q2 * two[m]
            + q1 * q2 * both[m]
            for m in (0, 1)
        )
        variance = np.where((q1 <= 1) & (q2 <= 1) & (q2 >= 0), square - mean * mean, np.inf)
        best = np.minimum(best, variance)
    return best
