"""Timers of an event loop, rounded up to its resolution of a millisecond."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final

TICK_S: Final = 0.001  # resolution of uvloop's timers, and of epoll's
ROUNDING_S: Final = 1e-9  # above the rounding error of a delay, which must not cost a tick


def call_after(
    loop: asyncio.AbstractEventLoop, delay_s: float, callback: Callable[..., object], *args: Any
) -> asyncio.TimerHandle:
    """Call a function after a delay, rounded up to whole milliseconds; at once if there is no delay.

    uvloop rounds delays to the nearest millisecond, and calls at once what rounds to zero. A caller that
    found that its time had not come, and asked again, would keep a processor busy until it came. The timer
    may still fire up to a millisecond early, because the loop's own clock ticks in milliseconds.
    """
    return loop.call_later(whole_ticks(delay_s), callback, *args)


def whole_ticks(delay_s: float) -> float:
    """Delay rounded up to whole milliseconds, seconds; 0 where there is no delay."""
    if delay_s <= 0:
        return 0.0
    return max(delay_s, max(1, math.ceil((delay_s - ROUNDING_S) / TICK_S)) * TICK_S)
