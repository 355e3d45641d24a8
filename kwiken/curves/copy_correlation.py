"""How much a copy's latency hangs together with its call's, from the copies that were sent.

A copy is sent only for a late call, and the race's loser is cancelled, so plain correlation of what was seen
says little. The link is taken as a Gaussian copula of correlation rho, and each pair speaks through its
likelihood: exactly where both ended, by a tail where one was cut short. That a pair was seen at all depends
on the call alone, whose law is known, so it cancels out.

Before any copy was sent, the calls' work tells, or their kind: what a copy would have taken is guessed
(`guess_copies`). The guesses say how much of the calls' lateness copies would leave, with the weight of some
pairs, so that real pairs soon outweigh them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from kwiken.arrays import Bools, Floats
from kwiken.curves.copies import normal_scores
from kwiken.errors import InputError
from kwiken.profile import Pool, StageProfile

GRID = np.tanh(np.linspace(-2.5, 2.5, 161))  # of rho, even in Fisher's z
PRIOR_Z = 0.25  # half of all stages within this of independence (a Cauchy prior in Fisher's z)
HOPELESS = 0.9  # from here on the slowness comes with the request, and a copy would be as slow
INTERVAL = (0.05, 0.95)
MOST_PAIRS = 20_000  # that are looked at: the estimate is sharp long before
GUESSES_WORTH = (
    50  # pairs that all guesses of a stage speak for, at most: the assumption behind them may fail
)
COARSE = 4  # guesses are compared at every so many-th rho
MOST_LATE = 200  # guesses that are looked at,
NORMAL = ndtri((np.arange(8) + 0.5) / 8)  # and copies of each, that a correlation stands for
LEAST_VARIANCE = 0.01  # of the share of lateness that copies leave


@dataclass(frozen=True)
class Correlation:
    """An estimate of the correlation of normal scores of a call and its copy.

    Attributes:
        rho: the correlation: posterior mean, shrunk towards independence; from 0 to below 1.
        low: correlation below which 5% of the posterior lies.
        high: correlation above which 5% lies.
        pairs: how many pairs it rests on.
        guesses: how many late calls whose work is known it rests on beside them.
    """

    rho: float
    low: float
    high: float
    pairs: int
    guesses: int = 0


UNKNOWN = Correlation(0.0, 0.0, 0.0, 0)


def copy_correlation(stage: StageProfile, pool: Pool) -> Correlation:
    """The correlation of a stage's copies with their calls.

    Args:
        stage: what was learned; `pairs_ms` holds its calls and copies, `guesses_ms` what copies of late calls
            would have taken.
        pool: law of its calls.

    Returns:
        The posterior mean in Fisher's z, and its interval; independence where nothing says anything.
    """
    seen, cut = _telling(stage)
    guesses = stage.guesses_ms if stage.guesses_ms is not None else np.empty((0, 2))
    if not len(pool) or not (len(seen) or len(guesses)):
        return UNKNOWN
    step = max(1, -(-len(seen) // MOST_PAIRS))
    z = np.arctanh(GRID)
    log_weight = _log_likelihood(normal_scores(pool, seen[::step]), cut[::step])
    if len(guesses):
        log_weight += _log_likelihood_of_guesses(pool, guesses)
    weight = log_weight - np.log1p((z / PRIOR_Z) ** 2)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    # Each weight lies half below its point of the grid: many pairs leave few points, and cells would show.
    low, high = np.interp(INTERVAL, np.cumsum(weight) - weight / 2, z)
    mean = float(np.tanh(max(0.0, float(weight @ z))))
    return Correlation(mean, float(np.tanh(low)), float(np.tanh(high)), len(seen), len(guesses))


def _telling(stage: StageProfile) -> tuple[Floats, Bools]:
    """The pairs of which at least one ended, and which were cut short."""
    if stage.pairs_ms is None or stage.pairs_cut is None:
        return np.empty((0, 2)), np.empty((0, 2), np.bool_)
    ended = ~stage.pairs_cut.all(axis=1)
    return stage.pairs_ms[ended], stage.pairs_cut[ended]


def known_correlation(stage: StageProfile, pool: Pool, given: float | None) -> float:
    """The correlation to plan with: the given one, or what the stage's pairs and its calls' work say.

    Raises:
        InputError: for a given one outside [0, 1).
    """
    if given is None:
        return copy_correlation(stage, pool).rho
    if not 0 <= given < 1:
        raise InputError(f"must be from 0 to below 1, not {given}", where="copy_correlation")
    return given


def _log_likelihood(scores: Floats, cut: Bools) -> Floats:
    """(rho,): of the pairs' normal scores, up to what does not depend on rho."""
    call, copy = scores.T
    total = np.zeros(len(GRID))
    spread = np.sqrt(1.0 - GRID * GRID)[:, None]
    ended = ~cut.any(axis=1)
    away = (copy[ended] - GRID[:, None] * call[ended]) / spread
    total += (-0.5 * away * away - np.log(spread)).sum(axis=1)
    for cut_one, known in ((0, 1), (1, 0)):  # the one cut short took at least as long
        some = cut[:, cut_one] & ~cut[:, known]
        total += log_ndtr((GRID[:, None] * scores[some, known] - scores[some, cut_one]) / spread).sum(axis=1)
    return total


def _log_likelihood_of_guesses(pool: Pool, guesses: Floats) -> Floats:
    """(rho,): of how much of the calls' lateness copies would leave, on average; late is beyond the median.

    Where there are small requests and large ones, a copy of a large one is large, yet among these each is as
    good as independent of the next; by all of their normal scores a third of such copies would be small. So
    guesses speak only of what a race is about.
    """
    median = float(pool.quantile(np.array([0.5]))[0])
    late = guesses[guesses[:, 0] > median]
    late = late[:: max(1, -(-len(late) // MOST_LATE))]
    if not len(late):
        return np.zeros(len(GRID))
    call, copy = late[:, :1], late[:, 1:]

    def left(copies: Floats) -> Floats:
        return np.clip((copies - median) / (call - median), 0.0, 1.0)

    seen = left(copy)
    rho = GRID[::COARSE, None, None]
    normal = rho * normal_scores(pool, call) + np.sqrt(1.0 - rho * rho) * NORMAL
    expected = left(pool.quantile(ndtr(normal)))  # (rho, calls, copies of each)
    away = expected.mean(axis=(1, 2)) - seen.mean()
    variance = LEAST_VARIANCE + float(seen.var()) + expected.var(axis=(1, 2))
    away, variance = (np.interp(GRID, GRID[::COARSE], values) for values in (away, variance))
    return np.asarray(-0.5 * min(len(guesses), GUESSES_WORTH) * away * away / variance)
