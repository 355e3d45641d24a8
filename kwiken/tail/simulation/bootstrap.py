"""Block bootstrap: confidence intervals of means and percentiles of requests in order of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.model.latency import PERCENTILES

INTERVAL_LEVEL = 0.9
RESAMPLES = 200
BLOCKS = 50  # blocks of time that are resampled whole: slow requests come in bursts


class BlockBootstrap:
    """Resamples of whole blocks of time, since requests close in time are correlated.

    All figures of one bootstrap use the same resamples, so that figures of two plans can be compared.

    Args:
        requests: number of requests in order of time, 1 or more.
    """

    def __init__(self, requests: int, *, seed: int) -> None:
        count = min(BLOCKS, requests)
        rng = np.random.default_rng([seed, requests])
        self._weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
        self._block: NDArray[np.int64] = np.arange(requests) * count // requests

    @property
    def counts(self) -> Floats:
        """(resamples, n): number of times that each request, in order of time, is in each resample."""
        return np.asarray(self._weights[:, self._block], dtype=np.float64)

    def means(self, values: Floats) -> Floats:
        """(resamples,): mean of the values in each resample, in their unit.

        Args:
            values: (n,) values of the requests in order of time, in any unit.
        """
        sums, counts = np.bincount(self._block, values), np.bincount(self._block)
        return np.asarray((self._weights @ sums) / (self._weights @ counts))

    def percentiles(self, latency_ms: Floats) -> Floats:
        """(resamples, 5): the percentiles of a ladder in each resample, milliseconds.

        Args:
            latency_ms: (n,) latencies of the requests in order of time, milliseconds.
        """
        order = np.argsort(latency_ms)
        block = self._block[order]
        found = np.empty((len(self._weights), len(PERCENTILES)))
        for i, row in enumerate(self._weights):
            mass = np.cumsum(row[block])
            ranks = np.asarray(PERCENTILES) / 100 * mass[-1]
            found[i] = latency_ms[order[np.minimum(np.searchsorted(mass, ranks), len(order) - 1)]]
        return found


def interval(resampled: Floats) -> tuple[float, float]:
    """Ends of the interval that holds `INTERVAL_LEVEL` of the resamples, in their unit.

    Args:
        resampled: (resamples,) values of one figure, in any unit.
    """
    low, high = np.percentile(resampled, (50 * (1 - INTERVAL_LEVEL), 50 * (1 + INTERVAL_LEVEL))).tolist()
    return low, high
