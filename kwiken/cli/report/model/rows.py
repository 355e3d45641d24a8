"""Requests as a load generator noted them, by arm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from kwiken.cli.report.model.statistics import Floats
from kwiken.errors import InputError

FAILED_MS = 10_000.0  # what a request without an answer counts as at least: the generator's time-out
MOST_ROWS = 5_000_000


class LoadRow(msgspec.Struct, frozen=True):
    """One request: a line of a demo's `load.jsonl`, or of `kwiken load --records`.

    Attributes:
        intended_s: when it was due, seconds since 1970.
        latency_ms: from then on; None where it was never sent.
        status: of HTTP; 0 for none.
        trace_id: 32 hexadecimal digits.
        arm: of a demo.
        block: of a demo.
    """

    intended_s: float
    latency_ms: float | None
    status: int
    trace_id: str = ""
    arm: str | None = None
    block: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it was answered."""
        return self.latency_ms is not None and 200 <= self.status < 300  # noqa: PLR2004 - HTTP's range

    @property
    def counted_ms(self) -> float:
        """What it counts as: its latency; without an answer the time-out, or longer where it took longer."""
        if self.ok and self.latency_ms is not None:
            return self.latency_ms
        return max(FAILED_MS, self.latency_ms or 0.0)


@dataclass
class Loads:
    """Requests by arm.

    Attributes:
        arms: latencies, milliseconds.
        traces: arm of each trace.
        unanswered: requests that failed or were never sent.
    """

    arms: dict[str, list[float]] = field(default_factory=dict)
    traces: dict[int, str] = field(default_factory=dict)
    unanswered: int = 0

    def add(self, row: LoadRow, otherwise: str) -> None:
        """Take one request; `otherwise` is its arm if it names none."""
        arm = row.arm or otherwise
        self.arms.setdefault(arm, []).append(row.counted_ms)
        self.unanswered += not row.ok
        if row.trace_id:
            self.traces[int(row.trace_id, 16)] = arm

    def latencies(self) -> dict[str, Floats]:
        """(n,) of each arm."""
        return {arm: np.array(values, dtype=np.float64) for arm, values in self.arms.items()}


def read_rows(path: Path) -> Iterable[LoadRow]:
    """The requests in a file.

    Raises:
        InputError: names file and line.
    """
    decode = msgspec.json.Decoder(LoadRow).decode
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number > MOST_ROWS:
                raise InputError(f"has more than {MOST_ROWS} lines", where=str(path))
            try:
                row = decode(line)
                int(row.trace_id or "0", 16)
            except (msgspec.MsgspecError, ValueError) as error:
                raise InputError(f"is no record of a request: {error}", where=f"{path}:{number}") from error
            yield row
