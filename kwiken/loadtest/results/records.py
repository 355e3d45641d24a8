"""File of load records: one JSON line per request, written while the load runs."""

from __future__ import annotations

import math
import time
from pathlib import Path

import msgspec

from kwiken.base.errors import InputError
from kwiken.loadtest.results.outcome import RequestOutcome

_CHUNK_BYTES = 64 * 1024
_MAX_AGE_S = 0.5  # of a line that is not written yet, so that others can follow the load by its records
MAX_RECORDS = 5_000_000


class Records:
    """Writer of outcomes to a file, in chunks of 64 KiB or half a second, and at most five million lines.

    A line: `{"intended_s": epoch seconds, "start_lag_ms", "latency_ms", "status", "error", "trace_id"}`; lag
    and latency are null for a request that was dropped. An answer that is not whole has `utility` too,
    one that streams `first_item_ms` and `longest_gap_ms`.

    Args:
        path: name of the file, which is overwritten.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._encoder = msgspec.json.Encoder()
        self._lines: list[bytes] = []
        self._waiting = 0
        self._flushed_at = time.monotonic()
        self.path = path
        self.written = 0
        self.left_out = 0
        self.failure: str | None = None
        try:
            self._file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - open as long as the load runs
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"cannot be written: {reason}", where=path) from error

    def add(self, outcome: RequestOutcome, epoch_s: float) -> None:
        """Add one outcome; `epoch_s` is the start of the run in seconds since 1970."""
        if self.written >= MAX_RECORDS or self.failure is not None:
            self.left_out += 1
            return
        # Encoded one by one: encoding a thousand lines at once would delay requests that are due meanwhile.
        line = self._encoder.encode(
            {
                "intended_s": round(epoch_s + outcome.intended_s, 6),
                "start_lag_ms": _rounded(outcome.start_lag_ms),
                "latency_ms": _rounded(outcome.latency_ms),
                "status": outcome.status,
                "error": outcome.error,
                "trace_id": outcome.trace_id,
                **({"utility": outcome.utility} if outcome.partial else {}),
                **{
                    name: _rounded(value)
                    for name in ("first_item_ms", "longest_gap_ms")
                    if not math.isnan(value := getattr(outcome, name))
                },
            }
        )
        self._lines.append(line)
        self.written += 1
        self._waiting += len(line) + 1
        if self._waiting >= _CHUNK_BYTES or time.monotonic() > self._flushed_at + _MAX_AGE_S:
            self._flush()

    def close(self) -> None:
        """Write the remaining lines and close the file. A second call does nothing."""
        if not self._file.closed:
            self._flush()
            self._file.close()

    def _flush(self) -> None:
        """Write the buffered lines. On a failure (a full disk) keep the reason, and write no more."""
        self._flushed_at = time.monotonic()
        data = b"".join(line + b"\n" for line in self._lines)
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            self.failure = error.strerror or str(error)
            self.left_out += len(self._lines)
            self.written -= len(self._lines)
        self._lines.clear()
        self._waiting = 0


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)
