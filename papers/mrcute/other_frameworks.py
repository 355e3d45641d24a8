"""Two programs beside MapReduce whose malleability the source shows: a web tier and a factorisation."""

from __future__ import annotations

from typing import Final

import numpy as np

PAGE_MBIT: Final = 4.0  # of one request
PAGE_CORE_S: Final = 0.004  # of processor time for one request
CORES: Final = 4
ORDER: Final = 8000  # of the matrix
PANEL: Final = 64  # columns that are broadcast together
DOUBLE_BITS: Final = 64
FLOPS: Final = 0.3e9  # of one machine in a factorisation without blocks
LU_MACHINES: Final = 4
LATENCY_S: Final = 1e-3  # of a broadcast


def web_throughput(machines: int, bandwidth_mbps: float) -> float:
    """Requests per second of a web tier: the lesser of what its processors and its links carry.

    Args:
        bandwidth_mbps: bandwidth of each machine, megabits per second.
    """
    return machines * min(CORES / PAGE_CORE_S, bandwidth_mbps / PAGE_MBIT)


def factorisation_s(bandwidth_mbps: float) -> float:
    """Time of a factorisation by panels, seconds: a panel is broadcast while the one before it is applied.

    Args:
        bandwidth_mbps: bandwidth of each machine, megabits per second.
    """
    left = np.arange(ORDER, 0, -PANEL, dtype=np.float64)
    apply_s = 2 * left**2 * PANEL / (LU_MACHINES * FLOPS)
    broadcast_s = LATENCY_S + left * PANEL * DOUBLE_BITS / (1e6 * bandwidth_mbps)
    return float(np.maximum(apply_s[:-1], broadcast_s[1:]).sum() + broadcast_s[0] + apply_s[-1])
