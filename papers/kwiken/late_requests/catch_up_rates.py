"""Catch-up by threads and by priority: late requests run faster from an age on (Kwiken section 5.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError


@dataclass(frozen=True)
class ExtraThreads:
    """More threads for the work of late requests (Kwiken section 5.5).

    Attributes:
        threads: number of threads, 1 or more.
        speedup: factor by which the work runs faster, from 1 to `threads`; less than `threads`, because of
            synchronisation. Three threads give about 2 in the source.

    Raises:
        InputError: for fewer than one thread, or a speed-up below 1 or above the threads.
    """

    threads: int = 3
    speedup: float = 2.0

    def __post_init__(self) -> None:
        """Refuse a slow-down, and a speed-up above the number of threads."""
        if not 1 <= self.speedup <= self.threads:
            raise InputError(f"speedup must be from 1 to threads ({self.threads}), not {self.speedup}")


def speed_up(
    start_ms: Floats, work_ms: Floats, late_after_ms: float, threads: ExtraThreads
) -> tuple[Floats, Floats]:
    """Speed up a stage for late requests by more threads, from the moment they are late (Kwiken section 5.5).

    Args:
        start_ms: (n,) age of the requests when the stage starts.
        work_ms: (n,) duration of the stage with one thread.
        late_after_ms: age from which a request is late; infinite for never.

    Returns:
        (n,) duration of the stage, and (n,) extra thread-time used; milliseconds.
    """
    on_time = np.clip(late_after_ms - start_ms, 0.0, work_ms)
    rest = work_ms - on_time
    return on_time + rest / threads.speedup, rest * (threads.threads / threads.speedup - 1.0)


def prioritise(
    start_ms: Floats, transfer_ms: Floats, late_after_ms: float, *, protected_ms: float
) -> tuple[Floats, Floats]:
    """Transfer at high priority for requests that are late when it starts (Kwiken section 5.5).

    Args:
        start_ms: (n,) age of the requests when the transfer starts.
        transfer_ms: (n,) duration at normal priority.
        late_after_ms: age from which a request is late.
        protected_ms: longest duration at high priority, where no burst loses its packets.

    Returns:
        (n,) duration, milliseconds, and (n,) 1 for a transfer at high priority, otherwise 0.
    """
    late = start_ms >= late_after_ms
    return np.where(late, np.minimum(transfer_ms, protected_ms), transfer_ms), late.astype(float)
