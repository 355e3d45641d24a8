"""The service and the faults that all peers meet; written down before any comparison.

Three stages, one after another, with eight replicas each. A call waits for a log-normal time and hardly
computes, so that all replicas fit on two processors. The first replica of each stage has a fault at all
times: that of the first stage is slow, that of the second stops now and then, and that of the third fails
at once.

Faults and time of each call follow from a seed; the same seed gives the same moments of stalls to every peer.
The generator knows nothing of curves, plans or queues.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

STAGES: Final = ("one", "two", "three")
REPLICAS: Final = 8  # of each stage: a slow one takes 12.5% of the calls of its stage, 4.2% of all calls
MEDIAN_MS, SIGMA = 10.0, 0.5  # of a call
SLOW, STALLING, FAILING = "one", "two", "three"  # stages whose first replica has the fault
SLOW_FACTOR: Final = 5.0  # of every call of the slow replica
STALL_S, STALL_EVERY_S = 0.4, 3.6  # length of a stall, and mean time between two: a tenth of the time
RATE_PER_S: Final = 40.0  # of requests
TIMEOUT_S: Final = 5.0  # of a request; one without an answer by then is lost
WARM_S: Final = 5.0  # of load before the measured part, from which peers learn


def service_ms(stage: str, replica: int, rng: random.Random) -> float:
    """Time of one call without stalls, milliseconds.

    Args:
        replica: number of the replica in its stage, from 0.
    """
    took = MEDIAN_MS * rng.lognormvariate(0.0, SIGMA)
    return took * SLOW_FACTOR if stage == SLOW and replica == 0 else took


def fails(stage: str, replica: int) -> bool:
    """Whether a replica fails at once."""
    return stage == FAILING and replica == 0


def stalls(stage: str, replica: int, seed: int) -> Iterator[float]:
    """Seconds between stalls of a replica, without end; nothing for a replica that never stalls."""
    rng = random.Random(seed)
    while stage == STALLING and replica == 0:
        yield rng.expovariate(1 / STALL_EVERY_S)
