"""Figures of a stretch of the run: processors, the load generator's records, and the gateway's status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kwiken.apps.demo.pace.health import HealthWindow
from kwiken.apps.demo.setup.load import Record
from kwiken.base.machine.processor_use import ProcessorUse, use_between
from kwiken.base.machine.reading import read_processors
from kwiken.runtime.gateway.control.client import NoAnswerError


class Monitor:
    """Watches the machine, the load generator and the gateway from one stretch to the next.

    Args:
        records: file that the load generator appends its records to, one request a line.
        pids: returns the pids of gateway, replicas, load generator and this process.
    """

    def __init__(
        self,
        records: Path,
        *,
        pids: Callable[[], Iterable[int]],
        status: Callable[[], Awaitable[dict[str, Any]]],
    ) -> None:
        self._records = records
        self._pids = pids
        self._status = status
        self._offset = 0
        self._first = read_processors(pids())

    def begin(self) -> None:
        """Begin a stretch: what came before does not count."""
        self._first = read_processors(self._pids())
        self._new_records()

    def use(self) -> ProcessorUse | None:
        """Use of the processors since the last stretch began, None if unknown; begins another stretch."""
        first, self._first = self._first, read_processors(self._pids())
        return use_between(first, self._first) if first is not None and self._first is not None else None

    async def end(self, rate: float) -> HealthWindow:
        """Figures of the stretch that ends now.

        Args:
            rate: requests a second that were intended.
        """
        use = self.use()
        records = self._new_records()
        lags = [record.start_lag_ms for record in records if record.start_lag_ms is not None]
        backlog, line_ms = await self._gateway()
        return HealthWindow(
            rate=rate,
            answered=sum(record.answered for record in records),
            failed=sum(not record.answered for record in records),
            backlog=backlog,
            lag_ms=float(np.percentile(lags, 99)) if lags else 0.0,
            line_ms=line_ms,
            use=use,
        )

    async def _gateway(self) -> tuple[int | None, float]:
        """Requests at the gateway, None if it does not say, and the wait for its event loop in ms."""
        try:
            status = await self._status()
        except NoAnswerError:
            return None, 0.0
        # Each request waits several times for the loop; one of them asked for this status.
        return int(status["inside"]), float(status["line_ms"] or 0.0)

    def first_due_s(self) -> float | None:
        """Time at which the first request was due, in seconds since 1970; None if none is recorded yet."""
        try:
            with self._records.open("rb") as file:
                line = file.readline()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(line, type=Record).intended_s if line.endswith(b"\n") else None

    def _new_records(self) -> list[Record]:
        """Records of the requests that have ended since the last call."""
        try:
            with self._records.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [msgspec.json.decode(line, type=Record) for line in whole.splitlines()]
