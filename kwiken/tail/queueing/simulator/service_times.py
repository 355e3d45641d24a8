"""Distributions of times: of work at a replica, and of the rest of a call."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution


class ServiceTimes(Protocol):
    """Distribution of a time, milliseconds."""

    @property
    def mean_ms(self) -> float:
        """Its mean."""

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws, milliseconds.

        Args:
            size: number of draws, 0 or more.
        """


@dataclass(frozen=True)
class Constant:
    """Degenerate distribution: always the same time (the D of M/D/1).

    Raises:
        InputError: for a time that is negative or not finite.
    """

    mean_ms: float

    def __post_init__(self) -> None:
        """Refuse a time that is negative or not finite."""
        _check(self.mean_ms)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:  # noqa: ARG002 - nothing is drawn
        """(size,): the constant."""
        return np.full(size, self.mean_ms)


@dataclass(frozen=True)
class LogNormal:
    """Log-normal distribution of a time.

    Attributes:
        mean_ms: mean (not median), milliseconds.
        variation: ratio of the standard deviation to the mean, 0 or more.

    Raises:
        InputError: for a mean or ratio that is negative or not finite.
    """

    mean_ms: float
    variation: float

    def __post_init__(self) -> None:
        """Refuse a mean or ratio that is negative or not finite."""
        _check(self.mean_ms)
        _check(self.variation, "the variation")

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws."""
        spread = math.log1p(self.variation**2)
        return np.exp(rng.standard_normal(size) * math.sqrt(spread) - spread / 2) * self.mean_ms


@dataclass(frozen=True)
class Empirical:
    """Empirical distribution: draws from measured times, milliseconds.

    Attributes:
        distribution: measured times and their weights, milliseconds.

    Raises:
        InputError: for an empty distribution, or times that are negative or not finite.
    """

    distribution: EmpiricalDistribution

    def __post_init__(self) -> None:
        """Refuse an empty distribution, or times that are negative or not finite."""
        if not len(self.distribution):
            raise InputError("an empirical distribution needs at least one measured time")
        _check(float(self.distribution.values[0]))
        _check(float(self.distribution.values[-1]))

    @property
    def mean_ms(self) -> float:
        """Its mean."""
        return float(self.distribution.mass @ self.distribution.values)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws."""
        return self.distribution.draw(rng, size)


def _check(value: float, what: str = "a time") -> None:
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{what} must be a finite number >= 0, not {value}")
