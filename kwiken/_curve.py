"""The variance-response curve of a stage: what reissuing a share of its calls does to its variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken._errors import InputError
from kwiken._fanout import RankedCalls, slowest_moments
from kwiken._hull import lower_hull
from kwiken._pool import Pool, TimeOuts
from kwiken._profile import Bools, Floats
from kwiken._stage import Reissue

_FINE = (0.0, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1)
GRID: tuple[float, ...] = (*_FINE, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Curve:
    """Variance of a stage's latency against the share of its calls that are reissued.

    Attributes:
        fraction: (k,) ascending from 0: share of the stage's calls that get a copy.
        mean_ms: (k,): mean latency of the stage then, exact for the samples.
        variance: (k,): variance of its latency then, ms², exact for the samples.
        hull: (k,): lower convex, non-increasing hull of `variance`.
        vertices: (k,): which points the hull rests on.
        after_ms: (k,): age of a call at which its copy goes; infinite at fraction 0.
        probability: (k,): share of the calls of that age that get one.
        calls: the samples, for exact values between the points.
        pool: law of a copy.
    """

    fraction: Floats
    mean_ms: Floats
    variance: Floats
    hull: Floats
    vertices: Bools
    after_ms: Floats
    probability: Floats
    calls: RankedCalls
    pool: Pool

    def hull_at(self, fraction: float) -> float:
        """The hull between its points, ms²."""
        return float(np.interp(fraction, self.fraction, self.hull))

    def policy(self, fraction: float) -> Reissue | None:
        """The policy that reissues that share of the calls; None where it is less than any call seen."""
        if fraction * len(self.pool) < 0.5:  # noqa: PLR2004 - rounds to no call
            return None
        chosen = self.pool.time_outs(np.array([min(1.0, fraction)]))
        if not np.isfinite(chosen.after_ms[0]):
            return None
        return Reissue(
            after_ms=float(chosen.after_ms[0]),
            probability=min(1.0, float(chosen.probability[0])),
            fraction=min(1.0, float(chosen.fraction[0])),
        )

    def moments(self, policy: Reissue | None) -> tuple[float, float]:
        """Mean (ms) and variance (ms²) of the stage under a policy of one copy, exact for the samples."""
        if policy is None:
            return float(self.mean_ms[0]), float(self.variance[0])
        at = np.array([policy.after_ms])
        mean, square = slowest_moments(self.calls, self.pool, at, probability=policy.probability)
        return float(mean[0]), float(max(0.0, square[0] - mean[0] ** 2))


def reissue_curve(calls_ms: Floats, pool: Pool | None = None, *, grid: tuple[float, ...] = GRID) -> Curve:
    """The exact curve of `single`: one copy when a call is older than the time-out (Kwiken section 5.2.1).

    Args:
        calls_ms: (n,) or (n, width) latencies of the calls, milliseconds; NaN stands for no call.
            The stage's latency is its slowest call's, and copies are per call.
        pool: law of a copy; the calls' own by default.
        grid: shares of the calls to reissue, ascending from 0.

    Returns:
        A curve with at most as many points as the grid; shares that the samples cannot tell apart fall
        together. No sampling is involved: O(n log n) a point.

    Raises:
        InputError: for latencies that are negative or infinite, or none at all.
    """
    matrix = np.asarray(calls_ms, dtype=float)
    copies = Pool.of(matrix) if pool is None else pool
    _check(matrix, copies)
    calls = RankedCalls.of(matrix)
    outs = copies.time_outs(np.asarray(grid, dtype=float))
    mean, square = _moments(calls, copies, outs)
    fraction, first = np.unique(outs.fraction, return_index=True)
    variance = np.maximum(0.0, square - mean * mean)[first]
    hull, vertices = lower_hull(fraction, variance)
    return Curve(
        fraction=fraction,
        mean_ms=mean[first],
        variance=variance,
        hull=hull,
        vertices=vertices,
        after_ms=outs.after_ms[first],
        probability=outs.probability[first],
        calls=calls,
        pool=copies,
    )


def _check(calls: Floats, copies: Pool) -> None:
    if not len(copies) or np.isnan(calls).all():
        raise InputError("a curve needs at least one call")
    for values in (calls, copies.values):
        if np.nanmin(values) < 0 or np.isinf(values).any():
            raise InputError("latencies must be finite numbers >= 0")


def _moments(calls: RankedCalls, copies: Pool, outs: TimeOuts) -> tuple[Floats, Floats]:
    mean, square = np.empty(len(outs.after_ms)), np.empty(len(outs.after_ms))
    for probability in np.unique(outs.probability).tolist():
        mask = outs.probability == probability
        mean[mask], square[mask] = slowest_moments(
            calls, copies, outs.after_ms[mask], probability=probability
        )
    return mean, square
