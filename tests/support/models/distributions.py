"""Exponential distribution of times, for which textbook queues are solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats


@dataclass(frozen=True)
class Exponential:
    """Memoryless distribution (the M of M/M/1), milliseconds."""

    mean_ms: float

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        return rng.standard_exponential(size) * self.mean_ms
