"""Synthetic matrices of workloads by size and by number of replicas, as the specification draws them."""

from __future__ import annotations

import numpy as np

from kwiken.arrays import Floats

CORES = (1, 2, 4, 8, 12, 16, 24)
MEMORY_GB = (2, 4, 8, 16, 32, 48)
MAX_REPLICAS = 100
NOISE = 0.02  # deviation of a measurement


def size_rows(rng: np.random.Generator, count: int, noise: float = NOISE) -> Floats:
    """Log performance by size: Amdahl's law over cores, and a power law below the working set (section 5.6).

    Args:
        rng: generator.
        count: number of workloads.
        noise: standard deviation of a measurement's logarithm.

    Returns:
        (count, 42) natural logarithms of performance, cores by memory.
    """
    serial = rng.uniform(0.02, 0.5, count)[:, None, None]
    working_set_gb = 10 ** rng.uniform(0, 1.5, count)[:, None, None]
    exponent = rng.uniform(0.2, 1, count)[:, None, None]
    memory = np.minimum(1, np.array(MEMORY_GB)[None, None] / working_set_gb) ** exponent
    speed = memory / (serial + (1 - serial) / np.array(CORES)[None, :, None])
    rows: Floats = np.log(speed.reshape(count, -1))
    return rows + rng.normal(0, noise, rows.shape)


def replica_rows(rng: np.random.Generator, count: int, noise: float = NOISE) -> Floats:
    """Log performance on 1 to 100 nodes by the universal scalability law (section 5.6).

    Args:
        rng: generator.
        count: number of workloads.
        noise: standard deviation of a measurement's logarithm.

    Returns:
        (count, 100) natural logarithms of performance.
    """
    contention = rng.uniform(0, 0.1, count)[:, None]
    coherency = 10 ** rng.uniform(-6, -3.5, count)[:, None]
    nodes = np.arange(1, MAX_REPLICAS + 1)
    rows: Floats = np.log(nodes / (1 + contention * (nodes - 1) + coherency * nodes * (nodes - 1)))
    return rows + rng.normal(0, noise, rows.shape)
