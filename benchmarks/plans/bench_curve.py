"""Benchmark of one stage's variance-response curve: the closed form against sampling the races."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row, side_by_side
from kwiken.tail.curves.curve import GRID, reissue_curve

SAMPLES = 10_000
SHARDS = 8
DRAWS = 10  # races per call: enough that sampling errs by some percent, the closed form by nothing


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rng = np.random.default_rng(0)
    single = rng.lognormal(3, 1, SAMPLES)
    wide = rng.lognormal(3, 1, (SAMPLES, SHARDS))
    rounds = 3 if quick else 15
    return [
        side_by_side(
            f"curve of one stage, {SAMPLES} samples, {len(GRID)} points",
            lambda: reissue_curve(single, policies=("single",)),
            (f"sampling {DRAWS} races a call", lambda: sampled_curve(single[:, None], rng)),
            rounds=rounds,
            unit="ms",
            scale=1e3,
            target=2.0,
        ),
        side_by_side(
            "the same with the best of all SingleR at each point",
            lambda: reissue_curve(single),
            ("time-outs only", lambda: reissue_curve(single, policies=("single",))),
            rounds=rounds,
            unit="ms",
            scale=1e3,
        ),
        side_by_side(
            f"curve of a fan-out of {SHARDS}, {SAMPLES} requests, {len(GRID)} points",
            lambda: reissue_curve(wide),
            (f"sampling {DRAWS} races a call", lambda: sampled_curve(wide, rng)),
            rounds=3 if quick else 5,
            unit="ms",
            scale=1e3,
        ),
    ]


def sampled_curve(calls: NDArray[np.float64], rng: np.random.Generator) -> list[float]:
    """Variance of the slowest call at each point of the grid, by drawing every late call's copies."""
    flat = np.sort(calls.ravel())
    variances = []
    for fraction in GRID:
        rank = round(len(flat) * (1 - fraction))
        age = flat[rank - 1] if rank else 0.0
        late = np.flatnonzero(calls.ravel() > age)
        draws = []
        for _ in range(DRAWS):
            raced = calls.ravel().copy()
            raced[late] = np.minimum(raced[late], age + flat[rng.integers(len(flat), size=len(late))])
            draws.append(raced.reshape(calls.shape).max(axis=1))
        variances.append(float(np.concatenate(draws).var()))
    return variances
