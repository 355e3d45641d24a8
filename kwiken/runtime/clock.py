"""Time as the runtime sees it; passed in, so that tests run on their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the runtime reads the time. Timers are the event loop's own."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""


class SystemClock:
    """The machine's own clocks."""

    # Bound straight to the C functions: a Python frame per reading would cost more than the reading.
    monotonic = staticmethod(time.monotonic)
    time_ns = staticmethod(time.time_ns)
