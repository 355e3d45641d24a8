"""Tails of prediction errors: Student's t distribution, and the calibration of deviations on held-out errors.

A deviation is that of the normal distribution with the same 90% interval, whatever the tails. So the 90%
interval depends neither on the degrees of freedom, which tell wider intervals, nor on the narrowing, which
tells narrower ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from kwiken.base.arrays import Floats, Ints

COVERED: Final = 0.9  # share of errors that the interval of a deviation covers
NORMAL_QUANTILE: Final = float(ndtri((1 + COVERED) / 2))  # half width of that interval, in deviations
FREEDOMS: Final = (2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, math.inf)  # that are tried, heaviest first
INNER: Final = 0.68  # share of errors at which the narrowing is fitted
OUTER: Final = (0.95, 0.99)  # shares of errors at which the degrees of freedom are fitted
MIN_NARROWING, MAX_NARROWING = 0.3, 3.0  # of the exponent inside the 90% interval
MIN_SCALE, MAX_SCALE = 0.05, 20.0  # factor on standard deviations
MIN_DEVIATION: Final = 1e-12  # where a method claims to know exactly


@dataclass(frozen=True)
class ErrorTails:
    """Distribution of a prediction's error, in deviations; symmetric around 0.

    Attributes:
        freedom: number of degrees of freedom of the tails, 1 or more; infinite for normal ones.
        narrowing: exponent of the quantiles inside the 90% interval, relative to the end of that interval,
            a ratio of logarithms from 0.3 to 3. Above 1, more errors are small than the tails tell.
    """

    freedom: float = math.inf
    narrowing: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges; NaN fails too."""
        if not self.freedom >= 1:
            raise ValueError(f"freedom must be 1 or more, not {self.freedom}")
        if not MIN_NARROWING <= self.narrowing <= MAX_NARROWING:
            raise ValueError(
                f"narrowing must be from {MIN_NARROWING} to {MAX_NARROWING}, not {self.narrowing}"
            )

    def deviations_at(self, probability: float) -> float:
        """Quantile of the error, in deviations.

        Args:
            probability: probability that the error is below the quantile, above 0 and below 1.

        Returns:
            Number of deviations, below 0 for a probability below one half.
        """
        if math.isinf(self.freedom):
            plain = float(ndtri(probability))
        else:
            plain = float(stdtrit(self.freedom, probability)) * self._unit
        return self._bent(plain, self.narrowing)

    def probability_below(self, deviations: float) -> float:
        """Probability that the error is below a bound; the inverse of `deviations_at`.

        Args:
            deviations: the bound, as a number of deviations.
        """
        plain = self._bent(deviations, 1.0 / self.narrowing)
        if math.isinf(self.freedom):
            return float(ndtr(plain))
        return float(stdtr(self.freedom, plain / self._unit))

    @property
    def _unit(self) -> float:
        """Length of one unit of Student's t, in deviations."""
        return NORMAL_QUANTILE / float(stdtrit(self.freedom, (1 + COVERED) / 2))

    @staticmethod
    def _bent(deviations: float, exponent: float) -> float:
        """A quantile inside the 90% interval moved by an exponent, relative to the end of that interval."""
        size = abs(deviations) / NORMAL_QUANTILE
        return deviations if size >= 1.0 else math.copysign(NORMAL_QUANTILE * size**exponent, deviations)


NORMAL_TAILS: Final = ErrorTails()


def calibration(missed: Floats, deviation: Floats, groups: Ints) -> float:
    """Factor on standard deviations by which a 90% interval covers 90% of the errors.

    Args:
        missed: (h, n) errors.
        deviation: (h, n) predicted standard deviations.
        groups: (h,) numbers of groups of rows that miss together, 2 or more.
    """
    (unit,) = _quantiles(missed, deviation, groups, (COVERED,))
    return min(max(unit / NORMAL_QUANTILE, MIN_SCALE), MAX_SCALE)


def fitted_tails(missed: Floats, deviation: Floats, groups: Ints) -> ErrorTails:
    """Distribution whose intervals, of one width at 90%, come closest to the errors at other shares.

    Args:
        missed: (h, n) errors.
        deviation: (h, n) predicted standard deviations, in the unit of the errors; of any common factor.
        groups: (h,) numbers of groups of rows that miss together, 3 or more.
    """
    inner, unit, *outer = _quantiles(missed, deviation, groups, (INNER, COVERED, *OUTER))
    if inner <= 0:
        return NORMAL_TAILS
    seen = np.log(np.array(outer) / unit * NORMAL_QUANTILE)

    def distance(freedom: float) -> float:
        tails = ErrorTails(freedom)
        expected = np.log([tails.deviations_at((1 + share) / 2) for share in OUTER])
        return float(np.abs(expected - seen).sum())

    freedom = min(FREEDOMS, key=distance)
    plain = math.log(ErrorTails(freedom).deviations_at((1 + INNER) / 2) / NORMAL_QUANTILE)
    narrowing = math.log(inner / unit) / plain
    return ErrorTails(freedom, min(max(narrowing, MIN_NARROWING), MAX_NARROWING))


def _quantiles(missed: Floats, deviation: Floats, groups: Ints, shares: tuple[float, ...]) -> list[float]:
    """Sizes of errors, in deviations, below which these shares of new errors are expected to be.

    Of n independent errors, a quantile by interpolation has `1 + share * (n - 1)` of `n + 1` equally likely
    places below it, so a somewhat larger share is read. Errors of one group come together; n is the number
    of independent ones that tell a share as exactly as the groups do.
    """
    ratios = np.abs(missed) / np.maximum(deviation, MIN_DEVIATION)
    read = []
    for share in shares:
        beyond = (ratios > np.quantile(ratios, share)).astype(float)
        count = _independent(beyond, groups)
        read.append(min((share * (count + 1) - 1) / (count - 1), 1.0))
    found: list[float] = np.quantile(ratios, read).tolist()
    return found


def _independent(beyond: Floats, groups: Ints) -> float:
    """Number of independent entries whose mean varies as much as that of entries in groups.

    Args:
        beyond: (h, n) 1 for errors beyond a bound, else 0.
        groups: (h,) numbers of groups of rows that miss together.

    Returns:
        At least the number of groups and at most that of the entries.
    """
    mean = float(beyond.mean())
    _, places = np.unique(groups, return_inverse=True)
    excess = np.bincount(places, weights=(beyond - mean).sum(axis=1))
    number = len(excess)
    variance = float((excess**2).sum()) / beyond.size**2 * number / (number - 1)
    found = mean * (1 - mean) / variance if variance > 0 else math.inf
    return float(min(max(found, number), beyond.size))
