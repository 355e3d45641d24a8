"""Laws of the time that something takes: how long a call keeps a replica busy, how long it rests besides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kwiken.arrays import Floats
from kwiken.errors import InputError
from kwiken.profile import Pool


class ServiceTimes(Protocol):
    """A law of times, milliseconds."""

    @property
    def mean_ms(self) -> float:
        """Its mean."""

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws, milliseconds.

        Args:
            rng: where chance comes from.
            size: how many.
        """


@dataclass(frozen=True)
class Constant:
    """Always the same (the D of M/D/1).

    Attributes:
        mean_ms: the time, milliseconds.

    Raises:
        InputError: for what is no time.
    """

    mean_ms: float

    def __post_init__(self) -> None:
        """Refuse what is no time."""
        _check(self.mean_ms)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:  # noqa: ARG002 - nothing is drawn
        """(size,): the constant."""
        return np.full(size, self.mean_ms)


@dataclass(frozen=True)
class LogNormal:
    """Log-normal.

    Attributes:
        mean_ms: its mean (not its median).
        variation: ratio of its standard deviation to its mean.

    Raises:
        InputError: for what is no time, or no ratio.
    """

    mean_ms: float
    variation: float

    def __post_init__(self) -> None:
        """Refuse what is no time."""
        _check(self.mean_ms)
        _check(self.variation, "the variation")

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws."""
        spread = math.log1p(self.variation**2)
        return np.exp(rng.standard_normal(size) * math.sqrt(spread) - spread / 2) * self.mean_ms


@dataclass(frozen=True)
class Empirical:
    """Whatever was measured: draws from a pool of times, milliseconds.

    Attributes:
        pool: the times and their weights, milliseconds.

    Raises:
        InputError: for a pool that is empty, or holds what is no time.
    """

    pool: Pool

    def __post_init__(self) -> None:
        """Refuse an empty pool."""
        if not len(self.pool):
            raise InputError("a law needs at least one measured time")
        _check(float(self.pool.values[0]))
        _check(float(self.pool.values[-1]))

    @property
    def mean_ms(self) -> float:
        """Its mean."""
        return float(self.pool.mass @ self.pool.values)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws."""
        return self.pool.draw(rng, size)


def _check(value: float, what: str = "a time") -> None:
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{what} must be a finite number >= 0, not {value}")
