"""Event-loop lag: measures how late timers fire, as a sign of work that no counter sees.

In a saturated loop requests wait in sockets, in parsers and in tasks that have not begun, and running
requests wait again at every step. A timer waits in the same queue, so its delay shows how long an iteration
of the loop takes. The median of several timers in a row is used, because one long step is no queue (CoDel
uses the least wait within an interval: Nichols and Jacobson, ACM Queue 2012).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kwiken.model.service.service import Service
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram

EVERY_S: Final = 0.02
TIMERS_IN_MEDIAN: Final = 5  # timers in the median; odd
ITERATIONS_TO_START: Final = 2  # iterations until a request's work begins: one to read it, one to begin
ITERATIONS_PER_STAGE: Final = 3  # iterations to send a call, to read its answer, and to continue with it


class LagWatch:
    """Measures the lag of the running event loop.

    Args:
        tell: callback that gets the lag, in seconds, after each measurement.

    Attributes:
        lags: delays of all timers.
    """

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self.lags = LatencyHistogram()
        self._late = deque([0.0] * TIMERS_IN_MEDIAN, maxlen=TIMERS_IN_MEDIAN)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start measuring."""
        loop = asyncio.get_running_loop()
        self._set(loop)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, loop: asyncio.AbstractEventLoop) -> None:
        # Not the loop's own time, which a loop may update only once per iteration.
        self._timer = loop.call_later(EVERY_S, self._fired, loop, time.monotonic() + EVERY_S)

    def _fired(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(0.0, time.monotonic() - due)
        self.lags.add(late)
        self._late.append(late)
        self._tell(sorted(self._late)[TIMERS_IN_MEDIAN // 2])
        self._set(loop)


def loop_iterations_of(service: Service) -> int:
    """Smallest number of loop iterations, and so of waits, that a request of a service takes."""
    depth: dict[str, int] = {}
    for name, stage in service.stages.items():  # parents come first
        depth[name] = 1 + max((depth[parent] for parent in stage.after), default=0)
    return ITERATIONS_TO_START + ITERATIONS_PER_STAGE * max(depth.values())
