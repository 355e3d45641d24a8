"""Outcome of one request: dropped, failed or answered, and its latency from the intended start."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import NamedTuple

DROPPED = "dropped"
"""The error of a request that was never sent: too many were in flight when it was due."""


class SentRequest(NamedTuple):
    """Result of one request that was sent.

    Attributes:
        status: HTTP status; 0 without an answer.
        error: reason of the failure; None for 200 to 299, but for a stream that ends by an error.
        size: size of the answer's body, bytes.
        utility: utility that the answer states, from 0 to 1; 1 for a whole answer.
        first_item_s: time from its sending to the first item, seconds; NaN where nothing streams.
        longest_gap_s: longest wait between two items, or the last one and the end, seconds; NaN without one.
    """

    status: int
    error: str | None
    size: int
    utility: float = 1.0
    first_item_s: float = nan
    longest_gap_s: float = nan


@dataclass(slots=True)
class RequestOutcome:
    """Result of one intended request.

    Attributes:
        intended_s: intended start, seconds from the start of the run.
        start_lag_ms: delay from the intended start to the actual one; NaN if the request was dropped.
        latency_ms: time from the intended start to the whole answer, or to the failure; NaN if dropped.
        status: HTTP status; 0 if there was no answer.
        error: None for an answer of 200 to 299, else a short reason out of a small set.
        trace_id: W3C trace id that was sent with the request, 32 hex digits; empty if it was dropped.
        size: size of the answer's body, bytes.
        utility: utility that the answer states, from 0 to 1; 1 for a whole answer.
        first_item_ms: time from the intended start to the first item; NaN for an answer that does not stream.
        longest_gap_ms: longest wait after the first item, for a further one or the end; NaN without one.
    """

    intended_s: float
    start_lag_ms: float
    latency_ms: float
    status: int
    error: str | None
    trace_id: str
    size: int
    utility: float = 1.0
    first_item_ms: float = nan
    longest_gap_ms: float = nan

    @property
    def partial(self) -> bool:
        """True for a successful answer with a utility below 1."""
        return self.error is None and self.utility < 1

    @property
    def dropped(self) -> bool:
        """True for a request that was never sent."""
        return self.error == DROPPED
