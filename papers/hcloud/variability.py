"""Variability of rented nodes by size, from the law of the load by others (Figures 1 and 2)."""

from __future__ import annotations

from typing import Final

import numpy as np

from papers.figures.rows import Findings, Part, order_row, over_seeds
from papers.hcloud.runs import level
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
STEADY: Final = 0.03  # coefficient of variation that counts as none
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


def _rows(results: list[list[dict[str, float]]]) -> Findings:
    (seeds,) = results
    rows = []
    for figure, kind in (("Figure 1", "batch"), ("Figure 2", "latency")):
        for size in SIZES:
            source = "large" if size < 8 else "small"  # noqa: PLR2004 - cores, as in the source
            rows.append(
                level(
                    figure,
                    f"{kind}: coefficient of variation, {size} cores",
                    [one[f"{kind} {size}"] for one in seeds],
                    source,
                )
            )
        rows.append(
            level(
                figure,
                f"{kind}: runs of {INSTANCES} that lost a factor of {FAILING:g} or more, 1 core",
                [one[f"{kind} 1 failed"] for one in seeds],
                "some micro instances fail",
            )
        )
        rows.append(
            order_row(
                figure,
                f"{kind}: 16 cores vary least, by at most 3%",
                [
                    one[f"{kind} 16"] <= min(STEADY, *(one[f"{kind} {size}"] for size in (1, 2, 4)))
                    for one in seeds
                ],
            )
        )
    return Findings(tuple(rows))


def variability(seeds: int) -> tuple[Part, ...]:
    """Variability by size."""
    return (over_seeds("variability", spread_by_size, seeds, _rows, figures=("Figure 1", "Figure 2")),)
