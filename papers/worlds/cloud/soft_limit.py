"""Soft limit of the reserved nodes' utilisation: falls while a queue grows, rises in calm (HCloud)."""

from __future__ import annotations

from typing import Final

START: Final = 0.62  # the source starts at 60 to 65%
HARD_LIMIT: Final = 0.85
LEAST: Final = 0.40
BELOW_HARD: Final = 0.05
INTERVAL_S: Final = 10.0  # of updates
PER_GROWTH: Final = 0.01  # for each job by which the queue grows in a second
PER_QUEUED: Final = 0.002  # for each queued job for each reserved node
PER_CALM_S: Final = 0.0005  # for each second of calm
CALM_S: Final = 60.0  # without a queue, from which on the limit rises


class SoftLimit:
    """Soft limit, updated every ten seconds.

    Args:
        nodes: number of reserved nodes.
        hard: hard limit, a share of the reserved cores.

    Attributes:
        value: soft limit, a share of the reserved cores.
    """

    def __init__(self, nodes: int, *, hard: float = HARD_LIMIT) -> None:
        self.value = START
        self._nodes = max(1, nodes)
        self._most = hard - BELOW_HARD
        self._queued = 0
        self._last_s = 0.0
        self._queue_ended_s = 0.0

    def update(self, now_s: float, queued: int) -> float:
        """Take account of the queue; nothing happens within ten seconds of the last update.

        Args:
            now_s: moment, seconds.
            queued: number of jobs in the queue.
        """
        passed_s = now_s - self._last_s
        if passed_s < INTERVAL_S:
            return self.value
        growth = (queued - self._queued) / passed_s
        if queued:
            self._queue_ended_s = now_s
        calm = now_s - self._queue_ended_s >= CALM_S
        change = -PER_GROWTH * max(0.0, growth) - PER_QUEUED * queued / self._nodes
        change += PER_CALM_S * passed_s * calm
        self.value = min(self._most, max(LEAST, self.value + change))
        self._queued, self._last_s = queued, now_s
        return self.value
