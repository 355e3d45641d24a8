"""Retries of starts that failed: when a workload is placed anew, and on which node it is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FIRST_WAIT_S: Final = 20.0
MAX_WAIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Retry:
    at_s: float
    wait_s: float
    node: str


@dataclass(slots=True)
class Retries:
    """Pauses before starts are tried again, each twice as long as the one before."""

    _of: dict[str, _Retry] = field(default_factory=dict)  # by workload

    def failed(self, workload: str, node: str, now_s: float) -> None:
        """Record that a replica could not be started.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        wait_s = self._of[workload].wait_s if workload in self._of else FIRST_WAIT_S
        self._of[workload] = _Retry(now_s + wait_s, wait_s, node)

    def due(self, now_s: float) -> list[tuple[str, str]]:
        """Workloads whose pause is over, with the node that failed them; the next pause of each begins.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        due = [(name, retry.node) for name, retry in self._of.items() if now_s >= retry.at_s]
        for name, node in due:
            wait_s = min(MAX_WAIT_S, 2 * self._of[name].wait_s)
            self._of[name] = _Retry(now_s + wait_s, wait_s, node)
        return due

    def done(self, workload: str) -> None:
        """Record that a workload has what it needs."""
        del self._of[workload]
