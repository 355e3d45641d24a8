"""Estimate of the correlation between the latencies of a call and its copy.

A copy is sent only for a late call, and the loser of the race is cancelled, so the plain correlation of the
observed pairs is biased. The model is a Gaussian copula of correlation rho. Each pair enters by its
likelihood: a density where both ended, a tail probability where one was cancelled. Whether a pair was
observed depends on the call alone, whose distribution is known, so the selection cancels out.

Before any copy was sent, the measured work of the calls, or the class of their requests, gives estimates of
what a copy would have taken (`guess_copies`, `guess_by_kind`). They enter by the share of the calls' lateness
that copies would leave, with the weight of a few dozen pairs, so that real pairs soon outweigh them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import StageProfile
from kwiken.tail.curves.copies import Useless, normal_scores

RHO_GRID = np.tanh(np.linspace(-2.5, 2.5, 161))  # evenly spaced in Fisher's z
PRIOR_SCALE_Z = 0.25  # scale of a Cauchy prior in Fisher's z: half of all stages within it of independence
MAX_USEFUL_CORRELATION = 0.9  # from here on slowness comes with the request, and a copy would be as slow
INTERVAL = (0.05, 0.95)  # posterior probabilities of the interval's ends
MAX_PAIRS = 20_000  # pairs that are used: the estimate is sharp long before
MAX_WEIGHT_OF_GUESSES = 50  # pairs that all guesses of a stage weigh as much as: their assumption may fail
GUESS_GRID_STEP = 4  # guesses are evaluated at every fourth rho, and interpolated between
MAX_GUESSES = 200  # guesses that are used
NORMAL_POINTS = ndtri((np.arange(8) + 0.5) / 8)  # copies of each guess under a given rho
MIN_LEFT_VARIANCE = 0.01  # of the share of lateness that copies leave


@dataclass(frozen=True)
class Correlation:
    """Estimate of the correlation of the normal scores of a call and its copy.

    Attributes:
        rho: posterior mean of the correlation, shrunk towards independence; 0 or more and below 1.
        low: correlation below which 5% of the posterior lies.
        high: correlation above which 5% of the posterior lies.
        pairs: number of observed pairs of call and copy used.
        guesses: number of late calls with an estimated copy latency used.
    """

    rho: float
    low: float
    high: float
    pairs: int
    guesses: int = 0


UNKNOWN = Correlation(0.0, 0.0, 0.0, 0)


def copy_correlation(stage: StageProfile, distribution: EmpiricalDistribution) -> Correlation:
    """Estimate the correlation of a stage's copies with their calls.

    Args:
        stage: profile of the stage; `pairs_ms` holds its calls and copies, `guesses_ms` what copies of late
            calls would have taken.

    Returns:
        The posterior mean in Fisher's z, and its interval; independence where there is no evidence.
    """
    seen, cut = _informative_pairs(stage)
    guesses = stage.guesses_ms if stage.guesses_ms is not None else np.empty((0, 2))
    if not len(distribution) or not (len(seen) or len(guesses)):
        return UNKNOWN
    step = max(1, -(-len(seen) // MAX_PAIRS))
    z = np.arctanh(RHO_GRID)
    log_weight = _log_likelihood(normal_scores(distribution, seen[::step]), cut[::step])
    if len(guesses):
        log_weight += _log_likelihood_of_guesses(distribution, guesses)
    weight = log_weight - np.log1p((z / PRIOR_SCALE_Z) ** 2)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    # Half of each weight lies below its grid point: with many pairs few points carry weight, and the steps
    # would shift the interval.
    low, high = np.interp(INTERVAL, np.cumsum(weight) - weight / 2, z)
    mean = float(np.tanh(max(0.0, float(weight @ z))))
    return Correlation(mean, float(np.tanh(low)), float(np.tanh(high)), len(seen), len(guesses))


def _informative_pairs(stage: StageProfile) -> tuple[Floats, Bools]:
    """(m, 2) pairs of which at least one side ended, milliseconds, and (m, 2) which sides were cancelled."""
    if stage.pairs_ms is None or stage.pairs_cut is None:
        return np.empty((0, 2)), np.empty((0, 2), np.bool_)
    ended = ~stage.pairs_cut.all(axis=1)
    return stage.pairs_ms[ended], stage.pairs_cut[ended]


def useless_bands(stage: StageProfile, given: float | None) -> Useless:
    """Bands of latency in which copies may be of no use; none where a correlation is given instead.

    Args:
        given: correlation to use at every stage; None to use what the traces tell.
    """
    return () if given is not None or stage.dependence is None else stage.dependence.bands


def known_correlation(stage: StageProfile, distribution: EmpiricalDistribution, given: float | None) -> float:
    """Correlation to plan with: the given one, or the estimate from the stage's profile.

    Args:
        given: correlation to use, 0 or more and below 1; None to estimate it.

    Raises:
        InputError: for a given correlation outside [0, 1).
    """
    if given is None:
        return copy_correlation(stage, distribution).rho
    if not 0 <= given < 1:
        raise InputError(f"must be from 0 to below 1, not {given}", where="copy_correlation")
    return given


def _log_likelihood(scores: Floats, cut: Bools) -> Floats:
    """(rho,): log likelihood of the pairs' normal scores, up to a constant in rho.

    There are two cases:
    1. Both sides ended: the density of the copy given its call.
    2. One side was cancelled: the probability that it takes at least that long given the other.
    """
    call, copy = scores.T
    total = np.zeros(len(RHO_GRID))
    spread = np.sqrt(1.0 - RHO_GRID * RHO_GRID)[:, None]
    ended = ~cut.any(axis=1)
    away = (copy[ended] - RHO_GRID[:, None] * call[ended]) / spread
    total += (-0.5 * away * away - np.log(spread)).sum(axis=1)
    for cut_one, known in ((0, 1), (1, 0)):
        some = cut[:, cut_one] & ~cut[:, known]
        above = (RHO_GRID[:, None] * scores[some, known] - scores[some, cut_one]) / spread
        total += log_ndtr(above).sum(axis=1)
    return total


def _log_likelihood_of_guesses(distribution: EmpiricalDistribution, guesses: Floats) -> Floats:
    """(rho,): log likelihood of the mean share of lateness (beyond the median) that copies would leave.

    Normal scores of the guesses would mislead. With small and large requests a copy of a large one is large
    too, while large ones are nearly independent of each other; the fitted copula would make a third of such
    copies small. The share of lateness left is what a race depends on, so only that is compared.
    """
    median = float(distribution.quantile(np.array([0.5]))[0])
    late = guesses[guesses[:, 0] > median]
    late = late[:: max(1, -(-len(late) // MAX_GUESSES))]
    if not len(late):
        return np.zeros(len(RHO_GRID))
    call, copy = late[:, :1], late[:, 1:]

    def left(copies: Floats) -> Floats:
        return np.clip((copies - median) / (call - median), 0.0, 1.0)

    seen = left(copy)
    rho = RHO_GRID[::GUESS_GRID_STEP, None, None]
    normal = rho * normal_scores(distribution, call) + np.sqrt(1.0 - rho * rho) * NORMAL_POINTS
    expected = left(distribution.quantile(ndtr(normal)))  # (rho, calls, copies of each)
    away = expected.mean(axis=(1, 2)) - seen.mean()
    variance = MIN_LEFT_VARIANCE + float(seen.var()) + expected.var(axis=(1, 2))
    at = RHO_GRID[::GUESS_GRID_STEP]
    away, variance = (np.interp(RHO_GRID, at, values) for values in (away, variance))
    return np.asarray(-0.5 * min(len(guesses), MAX_WEIGHT_OF_GUESSES) * away * away / variance)
