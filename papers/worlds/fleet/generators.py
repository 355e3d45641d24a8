"""Generators of true behaviour: performance by platform, size and replicas, and scores of contention.

The specifications of Paragon and Quasar (section 5.6 of each) give the forms and ranges. What they leave open
is a constant here, chosen before anything was simulated and not adjusted to results.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats
from papers.worlds.fleet.platforms import Platform, features

# Paragon's ten sources of contention, in the order of `SOURCES`. The three kinds of work of a processor have
# no score in a simulated fleet, because no two replicas share a core.
CONTENDED: Final = tuple(place for place, source in enumerate(SOURCES) if not source.startswith("cpu-"))
# Quantile of the platforms' features up to which needs are drawn: with it an application is within 5% of its
# best on about six platforms of ten.
MAX_NEED_QUANTILE: Final = 0.6
NOISE_OF_PLATFORM: Final = 0.01  # standard deviation of log performance, by application and platform
SCORE_RANK: Final = 2
MAX_CAUSED: Final = 0.4  # pressure that one application can exert on one source
MIN_TOLERATED: Final = 0.02  # below which probes cannot exert less pressure
NOISE: Final = 0.02  # standard deviation of a measurement: of its logarithm, or of a score from 0 to 1
CORES: Final = (1, 2, 4, 8, 12, 16, 24)
MEMORY_GB: Final = (2, 4, 8, 16, 32, 48)
MAX_REPLICAS: Final = 100


def platform_response(
    rng: np.random.Generator,
    count: int,
    platforms: tuple[Platform, ...],
    most_needed: float = MAX_NEED_QUANTILE,
) -> Floats:
    """Performance of applications by platform, with needs that saturate (Paragon section 5.6).

    An application needs a core speed, a cache and a memory bandwidth. A platform that offers less costs
    performance, by a power that is the application's own; a platform that offers more gains nothing.

    Args:
        most_needed: quantile of what platforms offer up to which needs are drawn, a share.

    Returns:
        (count, c) performance as a share of the application's best platform.
    """
    offered = features(platforms)
    quantiles = rng.uniform(0, most_needed, (count, offered.shape[1]))
    needs = np.column_stack(
        [np.quantile(offered[:, one], quantiles[:, one]) for one in range(offered.shape[1])]
    )
    powers = rng.uniform(0.2, 1.0, needs.shape)
    log = (powers[:, None] * np.log(np.minimum(1.0, offered[None] / needs[:, None]))).sum(axis=2)
    log += rng.normal(scale=NOISE_OF_PLATFORM, size=log.shape)
    response: Floats = np.exp(log - log.max(axis=1, keepdims=True))
    return response


def score_rows(rng: np.random.Generator, count: int, rank: int, noise: float = NOISE) -> Floats:
    """Scores of applications by source of contention (Paragon, GEN-INT).

    Args:
        noise: standard deviation of a measurement, in points of a score from 0 to 1.

    Returns:
        (count, 10) scores from 0 to 1.
    """
    sources = rng.normal(0, 0.4, len(CONTENDED))
    traits = rng.normal(0, 1 / np.sqrt(rank), (rank, len(CONTENDED)))
    scores = 1 / (1 + np.exp(-(sources + rng.normal(0, 1, (count, rank)) @ traits)))
    noisy: Floats = np.clip(scores + rng.normal(0, noise, scores.shape), 0, 1)
    return noisy


def contention_scores(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """True tolerated and caused pressure of applications, by source of contention.

    Both follow `score_rows` with two traits. What is caused is the square of a score, times `MAX_CAUSED`:
    most applications press hard on few sources.

    Returns:
        Two arrays (count, 10) of shares: tolerated and caused.
    """
    tolerated = np.maximum(score_rows(rng, count, SCORE_RANK, 0.0), MIN_TOLERATED)
    return tolerated, MAX_CAUSED * score_rows(rng, count, SCORE_RANK, 0.0) ** 2


def size_rows(rng: np.random.Generator, count: int, noise: float = NOISE) -> Floats:
    """Log performance by size: Amdahl's law over cores, and a power law below the working set (Quasar 5.6).

    Args:
        noise: standard deviation of a measurement's logarithm.

    Returns:
        (count, 42) natural logarithms of performance, by cores and then by memory, each as in `sizes`.
    """
    serial = rng.uniform(0.02, 0.5, count)[:, None, None]
    working_set_gb = 10 ** rng.uniform(0, 1.5, count)[:, None, None]
    exponent = rng.uniform(0.2, 1, count)[:, None, None]
    memory = np.minimum(1, np.array(MEMORY_GB)[None, None] / working_set_gb) ** exponent
    speed = memory / (serial + (1 - serial) / np.array(CORES)[None, :, None])
    rows: Floats = np.log(speed.reshape(count, len(CORES) * len(MEMORY_GB)))
    return rows + rng.normal(0, noise, rows.shape)


def replica_rows(rng: np.random.Generator, count: int, noise: float = NOISE) -> Floats:
    """Log performance on 1 to 100 nodes by the universal scalability law (Quasar section 5.6).

    Args:
        noise: standard deviation of a measurement's logarithm.

    Returns:
        (count, 100) natural logarithms of performance, relative to one node without noise.
    """
    contention = rng.uniform(0, 0.1, count)[:, None]
    coherency = 10 ** rng.uniform(-6, -3.5, count)[:, None]
    nodes = np.arange(1, MAX_REPLICAS + 1)
    rows: Floats = np.log(nodes / (1 + contention * (nodes - 1) + coherency * nodes * (nodes - 1)))
    return rows + rng.normal(0, noise, rows.shape)
