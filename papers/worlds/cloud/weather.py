"""Rented nodes as drawn: spin-up, load by others on their hosts, and the loss of jobs by pressure.

The law of each quantity is a choice where the source gives a summary; none is adjusted to a result.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

SIZES: Final = (1, 2, 4, 8, 16)  # cores of nodes on demand
RESOURCES: Final = 10
NETWORK: Final = 9  # index of the resource that nodes share with others even on a whole host
NETWORK_SHARE: Final = 0.2
SCALE: Final = 99.0  # pressure of a full resource
STEP_S: Final = 10.0  # of the load by others
REVERT_S: Final = 600.0
SWING: Final = 0.10  # of the load by others about its mean
HOST_SPREAD: Final = 0.05
CROWDING: Final = {1: 2.0, 2: 1.6, 4: 1.3, 8: 1.0, 16: 1.0}  # factor of pressure on small nodes
SPIN_UP_FACTOR: Final = {1: 1.5, 2: 1.35, 4: 1.2, 8: 1.1, 16: 1.0}
USUAL_SHARE: Final = 0.945  # of the spin-ups
USUAL_S: Final = (12.0, 19.0)
SLOW_S: Final = (118.0, 140.0)
TYPICAL_S: Final = 15.5  # middle of the usual spin-ups, by which idle nodes are kept
BATCH_WEIGHT: Final = 3.0  # slowdown of a batch job by a full excess on its resources
LATENCY_WEIGHT: Final = 2.0
BUSY: Final = 0.7  # utilisation of a latency-critical job alone
BUSY_MOST: Final = 0.98


def outside_load(rng: np.random.Generator, mean: float, steps: int) -> Floats:
    """(n,) Mean load by others over time, a share: mean-reverting, within ten points of its mean."""
    keep = float(np.exp(-STEP_S / REVERT_S))
    kicks = rng.standard_normal(steps) * np.sqrt(1 - keep * keep)
    values = np.empty(steps)
    value = rng.standard_normal()
    for at in range(steps):
        value = keep * value + kicks[at]
        values[at] = value
    return np.clip(mean + SWING * np.clip(values, -1.0, 1.0), 0.0, 1.0)


def spin_up_s(rng: np.random.Generator, size: int) -> float:
    """Time from the order of a node to its start, seconds."""
    low, high = USUAL_S if rng.random() < USUAL_SHARE else SLOW_S
    return float(rng.uniform(low, high)) * SPIN_UP_FACTOR[size]


def experienced(load: float, size: int, shares: Floats) -> Floats:
    """(10,) Pressure by others on a rented node, 0 to 99.

    Args:
        load: load by others on the host, a share.
        size: number of cores of the node.
        shares: (10,) weight of each resource in the load by others.
    """
    if size >= SIZES[-1]:
        pressure = np.zeros(RESOURCES)
        pressure[NETWORK] = SCALE * load * shares[NETWORK] * NETWORK_SHARE
        return pressure
    part = (SIZES[-1] - size) / SIZES[-1] * CROWDING[size]
    return np.minimum(SCALE, SCALE * load * shares * part)


def excess(pressure: Floats, tolerated: Floats, weights: Floats) -> float:
    """Pressure beyond what a job tolerates, weighted by what it uses, as a share."""
    return float((weights * np.maximum(0.0, pressure - tolerated)).sum()) / SCALE


def batch_slowdown(beyond: float) -> float:
    """Time of a batch job as a factor of that alone.

    Args:
        beyond: pressure beyond what it tolerates, a share.
    """
    return 1.0 + BATCH_WEIGHT * beyond


def latency_factor(beyond: float) -> float:
    """p99 of a latency-critical job as a factor of that alone: pressure also takes capacity from it.

    Args:
        beyond: pressure beyond what it tolerates, a share.
    """
    busy = min(BUSY_MOST, BUSY / max(1e-9, 1.0 - beyond))
    return (1.0 + LATENCY_WEIGHT * beyond) * (1.0 - BUSY) / (1.0 - busy)
