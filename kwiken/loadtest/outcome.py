"""What became of one request."""

from __future__ import annotations

from dataclasses import dataclass

DROPPED = "dropped"
"""The error of a request that was never sent: too many were in flight when it was due."""


@dataclass(slots=True)
class Outcome:
    """One intended request.

    Attributes:
        intended_s: when it was meant to start, seconds from the start of the run.
        start_lag_ms: how much later than intended its sending began; NaN if it was dropped.
        latency_ms: from the intended start to the whole answer (or to the failure); NaN if it was dropped.
        status: HTTP status, 0 when there was no answer.
        error: None for an answer of 200 to 299, else a short reason out of a small set.
        trace_id: 32 hex digits, the W3C trace id that was sent along; empty if it was dropped.
        size: bytes of the answer's body.
        utility: what the answer says that it is worth, from 0 to 1; 1 for a whole one.
    """

    intended_s: float
    start_lag_ms: float
    latency_ms: float
    status: int
    error: str | None
    trace_id: str
    size: int
    utility: float = 1.0

    @property
    def partial(self) -> bool:
        """Whether it was answered, though not in full."""
        return self.error is None and self.utility < 1

    @property
    def dropped(self) -> bool:
        """Whether it was never sent."""
        return self.error == DROPPED
