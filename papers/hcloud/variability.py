"""Variability of rented nodes by size, from the law of the load by others (Figures 1 and 2)."""

from __future__ import annotations

from typing import Final

import numpy as np

from papers.worlds.cloud.weather import (
    HOST_SPREAD,
    RESOURCES,
    SIZES,
    batch_slowdown,
    excess,
    experienced,
    latency_factor,
    outside_load,
)

INSTANCES: Final = 40
SENSITIVITY: Final = {"batch": 50.0, "latency": 85.0}  # pressure that the job causes on two resources
FAILING: Final = 4.0  # slowdown at which a run on the smallest node counts as failed


def spread_by_size(seed: int) -> dict[str, float]:
    """Coefficient of variation over 40 nodes of each size, of a batch and a latency-critical job."""
    rng = np.random.default_rng((seed, 5))
    shares = rng.uniform(0.5, 1.5, RESOURCES)
    found = {}
    for kind, height in SENSITIVITY.items():
        caused = np.full(RESOURCES, 5.0)
        caused[[1, 4]] = height
        weights = caused**2 / (caused**2).sum()
        tolerated = np.clip(85 - 0.85 * caused, 0, 85)
        loss = batch_slowdown if kind == "batch" else latency_factor
        for size in SIZES:
            levels = np.clip(
                outside_load(rng, 0.25, INSTANCES * 60)[::60]
                + rng.uniform(-HOST_SPREAD, HOST_SPREAD, INSTANCES),
                0,
                1,
            )
            factors = np.array(
                [loss(excess(experienced(float(one), size, shares), tolerated, weights)) for one in levels]
            )
            found[f"{kind} {size}"] = float(factors.std() / factors.mean())
            found[f"{kind} {size} failed"] = float((factors > FAILING).sum())
    return found
