"""Load records by arm: one row per request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from kwiken.apps.report.model.statistics import Floats
from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_regular

FAILED_MS = 10_000.0  # least latency of a request that failed: the generator's time-out
MAX_ROWS = 5_000_000


class LoadRow(msgspec.Struct, frozen=True):
    """Record of one request: a line of a demo's `load.jsonl`, or of `kwiken load --records`.

    Attributes:
        intended_s: time when the request was due, in seconds since 1970.
        latency_ms: latency from that time on; None if the request was never sent.
        status: HTTP status; 0 for none.
        arm: name of the arm in a demo; None outside.
        block: number of the block in a demo; None outside.
    """

    intended_s: float
    latency_ms: float | None
    status: int
    trace_id: str = ""
    arm: str | None = None
    block: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the request was answered with a status from 200 to 299."""
        return self.latency_ms is not None and 200 <= self.status < 300  # noqa: PLR2004 - HTTP's range

    @property
    def counted_ms(self) -> float:
        """Latency for statistics, in milliseconds: for a request that failed, the time-out or longer."""
        if self.ok and self.latency_ms is not None:
            return self.latency_ms
        return max(FAILED_MS, self.latency_ms or 0.0)


@dataclass
class Loads:
    """Latencies by arm.

    Attributes:
        arms: latencies in milliseconds, by arm.
        unanswered: number of requests that failed or were never sent.
    """

    arms: dict[str, list[float]] = field(default_factory=dict)
    traces: dict[int, str] = field(default_factory=dict)
    unanswered: int = 0

    def add(self, row: LoadRow, otherwise: str) -> None:
        """Add one request.

        Args:
            otherwise: name of the arm for a record that names none.
        """
        arm = row.arm or otherwise
        self.arms.setdefault(arm, []).append(row.counted_ms)
        self.unanswered += not row.ok
        if row.trace_id:
            self.traces[int(row.trace_id, 16)] = arm

    def latencies(self) -> dict[str, Floats]:
        """Latencies of each arm in milliseconds, (n,)."""
        return {arm: np.array(values, dtype=np.float64) for arm, values in self.arms.items()}


def read_rows(path: Path) -> Iterable[LoadRow]:
    """Read the load records in a file.

    Raises:
        InputError: names file and line.
    """
    decode = msgspec.json.Decoder(LoadRow).decode
    with open_regular(path) as file:
        for number, line in enumerate(file, 1):
            if number > MAX_ROWS:
                raise InputError(f"has more than {MAX_ROWS} lines", where=str(path))
            try:
                row = decode(line)
                int(row.trace_id or "0", 16)
            except (msgspec.MsgspecError, ValueError) as error:
                raise InputError(f"is no record of a request: {error}", where=f"{path}:{number}") from error
            yield row
