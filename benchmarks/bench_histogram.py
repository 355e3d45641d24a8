"""Histograms on the fixed grid against keeping and sorting every latency."""

from __future__ import annotations

import numpy as np

from benchmarks._harness import Row, alone, side_by_side
from kwiken import Histogram, add_array, convolve

SAMPLES = 1_000_000
ADDS = 100_000
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rng = np.random.default_rng(0)
    latencies = rng.lognormal(3, 1, SAMPLES)
    kept = latencies[:ADDS].tolist()
    full = Histogram()
    add_array(full, latencies)
    rounds = 3 if quick else 9
    return [
        alone(
            "add one latency to a histogram",
            lambda: Histogram(kept),
            rounds=rounds,
            unit="us",
            scale=1e6 / ADDS,
            target=0.25,
        ),
        side_by_side(
            f"count {SAMPLES} latencies and read {len(SHARES)} quantiles",
            lambda: counted(latencies),
            ("numpy.percentile over all", lambda: np.percentile(latencies, [100 * s for s in SHARES])),
            rounds=rounds,
            unit="ms",
            scale=1e3,
        ),
        side_by_side(
            "law of the sum of two latencies",
            lambda: convolve(full, full),
            (f"sorting {SAMPLES} sampled sums", lambda: np.sort(latencies + rng.permutation(latencies))),
            rounds=rounds,
            unit="ms",
            scale=1e3,
        ),
    ]


def counted(latencies: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """Quantiles by way of the histogram."""
    histogram = Histogram()
    add_array(histogram, latencies)
    return histogram.quantiles(SHARES)
