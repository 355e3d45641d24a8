"""How late an event loop runs: work that waits where nobody counts it.

Requests that a saturated loop has not come to wait in sockets, parsers, and tasks that have not begun, and
those that have begun wait again at every step. A timer waits in the same line, so how late it fires tells
how long a turn of the loop takes. The median of some timers in a row counts: one long step is no line (CoDel
takes the least wait within an interval for that: Nichols and Jacobson, ACM Queue 2012).
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kwiken.service import Service

EVERY_S: Final = 0.02
IN_A_ROW: Final = 5
TURNS_IN: Final = 2  # until a request that came is being worked on: one to read it, one to begin
TURNS_A_STAGE: Final = 3  # to send a call, to read its answer, and to go on with it


class LagWatch:
    """Measures how late the running loop is.

    Args:
        tell: told the lag, seconds, again and again.
    """

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._late = deque([0.0] * IN_A_ROW, maxlen=IN_A_ROW)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()
        self._set(loop)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, loop: asyncio.AbstractEventLoop) -> None:
        # Not the loop's own time, which a loop may note once a turn.
        self._timer = loop.call_later(EVERY_S, self._fired, loop, time.monotonic() + EVERY_S)

    def _fired(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._late.append(max(0.0, time.monotonic() - due))
        self._tell(statistics.median(self._late))
        self._set(loop)


def turns_of(service: Service) -> int:
    """Turns of the loop that a request of a service takes at least: so often it stands in line."""
    depth: dict[str, int] = {}
    for name, stage in service.stages.items():  # parents come first
        depth[name] = 1 + max((depth[parent] for parent in stage.after), default=0)
    return TURNS_IN + TURNS_A_STAGE * max(depth.values())
