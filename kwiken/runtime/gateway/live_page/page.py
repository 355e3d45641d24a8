"""Live page: an HTML page that draws a gateway's status, and the data that the page asks for each second."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any, Final

import msgspec

from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import Clock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.live_page.history import History
from kwiken.runtime.gateway.live_page.slow_requests import SlowRequestTable

WATCHED_S: Final = 30.0  # requests are recorded for this long after a page last asked for data
NS_PER_S: Final = 1e9


class LivePage:
    """Data of a gateway's live page.

    Requests are recorded for the page only while somebody looks at it.

    Args:
        steered: returns who put the plan in force, and the autopilot's note, as fields of the status.
    """

    def __init__(
        self,
        service: Service,
        executor: Executor,
        clock: Clock,
        *,
        steered: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._service = service
        self._executor = executor
        self._clock = clock
        self._steered = steered
        self._history = History(list(service.stages))
        self._slow: SlowRequestTable | None = None
        self._asked_at = 0.0
        self._started_s = clock.time_ns() / NS_PER_S

    @staticmethod
    def html() -> str:
        """The page, complete in one file."""
        return (
            resources.files("kwiken.runtime.gateway.live_page")
            .joinpath("page.html")
            .read_text(encoding="utf-8")
        )

    def sample(self) -> None:
        """Take one sample of the status; called once a second."""
        self._history.add(self._executor.status(), self._clock.time_ns() / NS_PER_S)
        if self._slow is not None and self._clock.monotonic() > self._asked_at + WATCHED_S:
            self._slow = None
            self._executor.watcher = None

    def view(self, *, samples_after: int, slow_after: int) -> dict[str, Any]:
        """Data of the page.

        Args:
            samples_after: number of the last sample that the page has; 0 for none.
            slow_after: number of the last slow request that the page has; 0 for none.

        Returns:
            As plain JSON types: `service`, `started_s` and `now_s` (seconds since 1970; numbers begin anew
            with another start), `dag` (the stages in order), `status`, `samples`, `slow` (requests), `plans`
            (those in force so far) and `plan` (the document in force, or None).
        """
        self._asked_at = self._clock.monotonic()
        if self._slow is None:
            self._slow = SlowRequestTable()
            self._executor.watcher = self._slow
        return {
            "service": self._service.name,
            "started_s": self._started_s,
            "now_s": self._clock.time_ns() / NS_PER_S,
            "dag": [
                {
                    "name": name,
                    "after": list(stage.after),
                    "fanout": stage.fanout,
                    "optional": stage.optional,
                }
                for name, stage in self._service.stages.items()
            ],
            "status": {**self._steered(), **self._executor.status()},
            "samples": self._history.after(samples_after),
            "slow": self._slow.after(slow_after),
            "plans": list(self._history.plans),
            "plan": msgspec.to_builtins(self._executor.plan),
        }
