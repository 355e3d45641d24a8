"""Measurement of a gateway by itself, at intervals: event-loop lag, recent latencies, history of status."""

from __future__ import annotations

import asyncio
from typing import Final

from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.live_page.page import LivePage
from kwiken.runtime.gateway.observation.loop_lag import LagWatch

INTERVAL_S: Final = 1.0  # between two samples of the status; the lag is measured more often


class SelfMeasurement:
    """Measures while the gateway runs.

    Args:
        live: live page that keeps the history of the status.
        loop_iterations: iterations of the event loop that a request takes at least, each of which waits for
            the loop's lag.

    Attributes:
        lag: measurement of the event loop's lag.
    """

    def __init__(self, executor: Executor, live: LivePage, *, loop_iterations: int) -> None:
        self.lag = LagWatch(lambda lag_s: executor.note_line(loop_iterations * lag_s))
        self._executor = executor
        self._live = live
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self.lag.start()
        self._repeat()

    def stop(self) -> None:
        """End the measurement."""
        self.lag.stop()
        if self._timer is not None:
            self._timer.cancel()

    def take(self) -> None:
        """Take a sample of the status, and begin another interval of the recent latencies."""
        self._live.sample()
        self._executor.begin_interval()

    def _repeat(self) -> None:
        self.take()
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._repeat)
