"""Timers of an event loop, rounded up to its resolution of a millisecond, and callbacks after pending I/O."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final

TICK_S: Final = 0.001  # resolution of uvloop's timers, and of epoll's
ROUNDING_S: Final = 1e-9  # above the rounding error of a delay, which must not cost a tick
# Iterations of the loop until pending I/O is handled: one to read it, one for the task that
# waits for it, and one because the order of the two within an iteration varies.
PENDING_ITERATIONS: Final = 3


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


def settle(
    loop: asyncio.AbstractEventLoop, then: Callable[[], object], turns: int = PENDING_ITERATIONS
) -> None:
    """Call `then` when all data that has reached the process by now is read and handled.

    A loop that was delayed (by a long step, or by other processes) runs its timers before it reads:
    the awaited answer may have arrived long ago. Without a delay this takes some tens of microseconds.

    Args:
        then: callback; it must check itself whether it is still needed.
        turns: iterations of the loop to wait, 0 or more.
    """
    if turns:
        loop.call_soon(settle, loop, then, turns - 1)
    else:
        then()
