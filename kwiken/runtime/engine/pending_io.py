"""Acting only once an event loop has acted on all that came while it was held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

# Turns of the loop until what came while it was held has been acted on: one to read it, one for the task that
# waits for it, and one for the order in which a loop does the two.
SETTLE: Final = 3


def settle(loop: asyncio.AbstractEventLoop, then: Callable[[], object], turns: int = SETTLE) -> None:
    """Call `then` when all that had come to the process by now is read and acted on.

    A loop that was held (by a long step, or by others on the processor) rings its timers before it reads:
    what they ask for may have come long ago. One that was not comes here within some tens of microseconds.

    Args:
        loop: the running one.
        then: what to do; it must ask itself whether it is still wanted.
        turns: of the loop.
    """
    if turns:
        loop.call_soon(settle, loop, then, turns - 1)
    else:
        then()
