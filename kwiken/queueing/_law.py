"""Laws of the time that something takes: how long a call keeps a server busy, how long a pause lasts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kwiken._errors import InputError
from kwiken._pool import Pool
from kwiken._profile import Floats


class Law(Protocol):
    """A law of times, milliseconds."""

    @property
    def mean_ms(self) -> float:
        """Its mean."""

    @property
    def square_ms2(self) -> float:
        """Its second moment: the mean of the squares, ms²."""

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

    @property
    def square_ms2(self) -> float:
        """Second moment, ms²."""
        return self.mean_ms**2

    def draw(self, rng: np.random.Generator, size: int) -> Floats:  # noqa: ARG002 - nothing is drawn
        """(size,): the constant."""
        return np.full(size, self.mean_ms)


@dataclass(frozen=True)
class Exponential:
    """Without memory (the M of M/M/1).

    Attributes:
        mean_ms: mean time, milliseconds.

    Raises:
        InputError: for what is no time.
    """

    mean_ms: float

    def __post_init__(self) -> None:
        """Refuse what is no time."""
        _check(self.mean_ms)

    @property
    def square_ms2(self) -> float:
        """Second moment, ms²."""
        return 2 * self.mean_ms**2

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws."""
        return rng.standard_exponential(size) * self.mean_ms


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

    @property
    def square_ms2(self) -> float:
        """Second moment, ms²."""
        return self.mean_ms**2 * (1 + self.variation**2)

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

    @property
    def square_ms2(self) -> float:
        """Second moment, ms²."""
        return float(self.pool.mass @ self.pool.values**2)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws."""
        return self.pool.draw(rng, size)


def _check(value: float, what: str = "a time") -> None:
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{what} must be a finite number >= 0, not {value}")
