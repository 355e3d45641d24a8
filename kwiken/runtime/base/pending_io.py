"""Run a callback after the event loop has handled I/O that is already pending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

# Iterations of the loop until pending I/O is handled: one to read it, one for the task that
# waits for it, and one because the order of the two within an iteration varies.
PENDING_ITERATIONS: Final = 3


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
