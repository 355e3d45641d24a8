"""Comparison of reissue policies at equal cost, including two-copy policies that the runtime lacks.

The closed form of one copy serves all of them, since several copies act as one with a known distribution. Two
copies sent together are one copy with the distribution of the faster. A copy at `d` and another at `d + w`
are one copy that takes longer than `t` if the first takes longer than `t` and the second longer than `t - w`.
Kwiken section 5.2.1 names single, double and immediate; SingleR and DoubleR are those of Kaler et al. 2017.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.tail.curves.curve import GRID, reissue_curve
from kwiken.tail.curves.fan_out import RankedCalls, slowest_moments

FIRST_COPY_SHARES = (0.25, 0.5, 0.75, 0.9)  # of DoubleR's cost that go to its first copy
MAX_CALLS_FOR_DOUBLE_R = 4000


def compare_policies(calls_ms: Floats, fractions: Iterable[float]) -> dict[str, Floats]:
    """Variance under each policy at equal cost, relative to no copies.

    After Kwiken section 5.2.1; SingleR and DoubleR: Kaler et al. 2017.

    Args:
        calls_ms: (n,) latencies of single calls, milliseconds; copies are drawn from them independently.
        fractions: g costs, in copies per call, above 0 and at most 1.

    Returns:
        By policy (`single`, `double`, `immediate`, `single_r`, `double_r`): (g,) ratio of the variance to
        that without copies. DoubleR is searched over a grid of its two ages and of the share of its first
        copy, so its values are upper bounds of its best.

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
    distribution, ranked = curve.distribution, RankedCalls.of(calls)
    single = [curve.moments(curve.policy(cost, coin=1.0))[1] for cost in costs.tolist()]
    best = [curve.moments(curve.policy(cost))[1] for cost in costs.tolist()]
    twice = _with_copies(ranked, faster_of_two(distribution), distribution, costs / 2)
    found = {
        "single": np.array(single),
        "double": twice,
        "immediate": _mixed(ranked, distribution, np.zeros(1), costs),
        "single_r": np.array(best),
    }
    ratios = {name: values / curve.variance[0] for name, values in found.items()}
    return {**ratios, "double_r": _double_r(calls, costs, ratios["single_r"])}


def faster_of_two(distribution: EmpiricalDistribution) -> EmpiricalDistribution:
    """Latency distribution of the faster of two independent calls."""
    upto = 1.0 - (1.0 - distribution.cdf) ** 2
    return EmpiricalDistribution(distribution.values, np.diff(upto, prepend=0.0))


def staggered(distribution: EmpiricalDistribution, wait_ms: float) -> EmpiricalDistribution:
    """Latency distribution of the faster of a copy sent now and one sent `wait_ms` later."""
    values = np.unique(np.concatenate((distribution.values, distribution.values + wait_ms)))
    upto = 1.0 - distribution.tail(values) * np.where(
        values >= wait_ms, distribution.tail(values - wait_ms), 1.0
    )
    return EmpiricalDistribution(values, np.diff(upto, prepend=0.0))


def _with_copies(
    calls: RankedCalls, copies: EmpiricalDistribution, ages: EmpiricalDistribution, fractions: Floats
) -> Floats:
    mean, square = slowest_moments(calls, copies, ages.time_outs(fractions).after_ms)
    return np.asarray(square - mean**2)


def _mixed(calls: RankedCalls, copies: EmpiricalDistribution, after_ms: Floats, coins: Floats) -> Floats:
    """(coins,): variance, ms², when a copy at one age is sent with each of these probabilities."""
    ends = np.array(slowest_moments(calls, copies, np.append(after_ms, np.inf)))
    mean, square = ends[:, 1:] + coins * (ends[:, :1] - ends[:, 1:])
    return np.asarray(square - mean * mean)


def _double_r(calls: Floats, costs: Floats, at_most: Floats) -> Floats:
    """(g,) ratios: the best of a grid of two ages and two coins, including SingleR (no second copy).

    The search uses a subsample of the calls. Its result is therefore the ratio to SingleR's variance on the
    same subsample, times SingleR's ratio on all calls.
    """
    calls = calls[:: max(1, len(calls) // MAX_CALLS_FOR_DOUBLE_R)]
    distribution, ranked = EmpiricalDistribution.of(calls), RankedCalls.of(calls)
    curve = reissue_curve(calls)
    best = one_copy = np.array([curve.moments(curve.policy(cost))[1] for cost in costs.tolist()])
    outs = distribution.time_outs(np.asarray(GRID[1:]))
    alone = np.array(slowest_moments(ranked, distribution, np.array([np.inf])))[:, 0]
    ones = np.array(slowest_moments(ranked, distribution, outs.after_ms)).T
    for i, first in enumerate(outs.after_ms.tolist()):
        for k, second in enumerate(outs.after_ms.tolist()):
            if not first < second < np.inf:  # an infinite age sends no second copy, which SingleR is
                continue
            both = np.array(
                slowest_moments(ranked, staggered(distribution, second - first), np.array([first]))
            )[:, 0]
            missed = float(distribution.tail(np.array([second - first]))[0])
            best = np.minimum(
                best,
                _two_coins(
                    costs,
                    (
                        float(distribution.tail(np.array([first]))[0]),
                        float(distribution.tail(np.array([second]))[0]),
                        missed,
                    ),
                    (alone, ones[i], ones[k], both),
                ),
            )
    return np.asarray(at_most * np.divide(best, one_copy, out=np.ones(len(costs)), where=one_copy > 0))


def _two_coins(
    costs: Floats, tails: tuple[float, float, float], moments: tuple[Floats, Floats, Floats, Floats]
) -> Floats:
    """(g,): least variance, ms², over splits of the cost between a first and a second copy.

    Args:
        costs: (g,) costs, in copies per call.
        tails: shares of the calls older than the first age and than the second, and share of the first copies
            that take longer than the time between the two ages.
        moments: mean, ms, and mean square, ms², without copies, with the first, with the second, with both.
    """
    late, later, missed = tails
    none, one, two, both = moments
    best = np.full(len(costs), np.inf)
    for share in FIRST_COPY_SHARES:
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
