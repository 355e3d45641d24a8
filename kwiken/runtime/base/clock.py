"""Clock interface of the runtime, injected so that tests can control the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of the time. Timers belong to the event loop."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment; never decreases."""

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""


class SystemClock:
    """Clocks of the operating system."""

    # Bound to the C functions: a Python frame per reading would cost more than the reading itself.
    monotonic = staticmethod(time.monotonic)
    time_ns = staticmethod(time.time_ns)
