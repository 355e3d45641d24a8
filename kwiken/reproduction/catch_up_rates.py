"""Catch-up: what is left of a request that is late already runs faster (Kwiken section 5.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.arrays import Floats
from kwiken.errors import InputError


@dataclass(frozen=True)
class Threads:
    """More threads for the work of late requests (Kwiken section 5.5).

    Attributes:
        threads: how many work on it.
        speedup: how much faster it runs; less than `threads`, for they must synchronise. Three threads give
            about 2 in the source.

    Raises:
        InputError: for fewer than one thread, or a speed-up below 1 or above the threads.
    """

    threads: int = 3
    speedup: float = 2.0

    def __post_init__(self) -> None:
        """Refuse a slow-down, and a speed-up beyond the threads."""
        if not 1 <= self.speedup <= self.threads:
            raise InputError(f"speedup must be from 1 to threads ({self.threads}), not {self.speedup}")


def hurry(start_ms: Floats, work_ms: Floats, late_after_ms: float, threads: Threads) -> tuple[Floats, Floats]:
    """A stage that gives late requests more threads, from the moment they are late (Kwiken section 5.5).

    Args:
        start_ms: (n,) age of the requests when the stage starts.
        work_ms: (n,) how long the stage takes with one thread.
        late_after_ms: age from which a request is late; infinite for never.
        threads: what late requests get.

    Returns:
        (n,) how long the stage takes then, and (n,) extra thread-time that it burns; milliseconds.
    """
    on_time = np.clip(late_after_ms - start_ms, 0.0, work_ms)
    rest = work_ms - on_time
    return on_time + rest / threads.speedup, rest * (threads.threads / threads.speedup - 1.0)


def prioritise(
    start_ms: Floats, transfer_ms: Floats, late_after_ms: float, *, protected_ms: float
) -> tuple[Floats, Floats]:
    """A transfer that goes at high priority where the request is late when it starts (Kwiken section 5.5).

    Args:
        start_ms: (n,) age of the requests when the transfer starts.
        transfer_ms: (n,) how long it takes at normal priority.
        late_after_ms: age from which a request is late.
        protected_ms: the longest that it takes at high priority, where no burst loses its packets.

    Returns:
        (n,) how long it takes then, milliseconds, and (n,) 1 where it went at high priority.
    """
    late = start_ms >= late_after_ms
    return np.where(late, np.minimum(transfer_ms, protected_ms), transfer_ms), late.astype(float)
