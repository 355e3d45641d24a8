"""Tails of prediction errors: Student's t distribution, and the calibration of deviations on held-out errors.

A deviation is that of the normal distribution with the same 90% interval, whatever the tails. So the 90%
interval never depends on the degrees of freedom, and wider or narrower intervals do.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from kwiken.base.arrays import Floats

COVERED: Final = 0.9  # share of errors that the interval of a deviation covers
NORMAL_QUANTILE: Final = 1.6449  # half width of that interval, in deviations
NORMAL_TAILS: Final = math.inf  # degrees of freedom
FREEDOMS: Final = (2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, NORMAL_TAILS)  # that are tried, heaviest first
JUDGED: Final = (0.68, 0.95, 0.99)  # shares of errors at which the tails are compared
MIN_SCALE, MAX_SCALE = 0.05, 20.0  # factor on standard deviations
MIN_DEVIATION: Final = 1e-12  # where a method claims to know exactly


def deviations_at(probability: float, freedom: float = NORMAL_TAILS) -> float:
    """Quantile of a prediction's error, in deviations.

    Args:
        probability: probability that the error is below the quantile, above 0 and below 1.
        freedom: number of degrees of freedom of the tails, 1 or more; infinite for normal ones.

    Returns:
        Number of deviations, below 0 for a probability below one half.
    """
    if math.isinf(freedom):
        return float(ndtri(probability))
    return float(stdtrit(freedom, probability)) * _unit(freedom)


def probability_below(deviations: float, freedom: float = NORMAL_TAILS) -> float:
    """Probability that a prediction's error is below a bound; the inverse of `deviations_at`.

    Args:
        deviations: the bound, as a number of deviations.
        freedom: number of degrees of freedom of the tails, 1 or more; infinite for normal ones.
    """
    if math.isinf(freedom):
        return float(ndtr(deviations))
    return float(stdtr(freedom, deviations / _unit(freedom)))


def _unit(freedom: float) -> float:
    """Length of one unit of Student's t, in deviations."""
    return float(ndtri((1 + COVERED) / 2) / stdtrit(freedom, (1 + COVERED) / 2))


def calibration(missed: Floats, deviation: Floats) -> float:
    """Factor on standard deviations by which a 90% interval covers 90% of the errors.

    Args:
        missed: (h, n) errors.
        deviation: (h, n) predicted standard deviations.
    """
    ratios = np.abs(missed) / np.maximum(deviation, MIN_DEVIATION)
    # Entries of a row miss together, so rows count: among h rows the worst is seen too rarely, by one in h.
    covered = min(COVERED * (1 + 1 / len(missed)), 1.0)
    scale = float(np.quantile(ratios, covered)) / NORMAL_QUANTILE
    return min(max(scale, MIN_SCALE), MAX_SCALE)


def tail_freedom(missed: Floats, deviation: Floats) -> float:
    """Degrees of freedom whose intervals, of one width at 90%, come closest to the errors at other shares.

    Args:
        missed: (h, n) errors.
        deviation: (h, n) predicted standard deviations, in the unit of the errors; of any common factor.
    """
    ratios = np.abs(missed) / np.maximum(deviation, MIN_DEVIATION)
    shares = np.minimum(np.array((*JUDGED, COVERED)) * (1 + 1 / len(missed)), 1.0)
    *found, unit = np.quantile(ratios, shares).tolist()
    if unit <= 0 or min(found) <= 0:
        return NORMAL_TAILS
    seen = np.log(np.array(found) / unit * NORMAL_QUANTILE)
    expected = {
        freedom: np.log([deviations_at((1 + share) / 2, freedom) for share in JUDGED]) for freedom in FREEDOMS
    }
    return max(FREEDOMS, key=lambda freedom: -float(np.abs(expected[freedom] - seen).sum()))
