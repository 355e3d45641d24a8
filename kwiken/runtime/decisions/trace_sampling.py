"""Tail sampling of traces: which requests' spans to keep, decided while and after a request runs.

Every kept request has an inclusion probability that is written into its trace, so that `fit` can weight it by
the inverse (Horvitz and Thompson, 1952). All draws of one request compare the same number, made of its trace
id, with these probabilities. A state machine in fixed memory; the latencies are passed in.
"""

from __future__ import annotations

from enum import StrEnum
from math import exp
from typing import Final, NamedTuple

import msgspec

from kwiken.base.errors import InputError

DRAWN_SHARE: Final = 0.04  # of all requests, drawn uniformly
SLOW_QUANTILE: Final = 0.99
MIN_REQUESTS_FOR_SLOW: Final = 200  # every request is kept before, as nothing says yet what is slow
STEP: Final = 0.03  # of the quantile's logarithm; its error is then about 1%
MIN_VALUE: Final = 1e-9
# Requests that were copied, retried, late, partial or failed are all kept up to this share of all requests;
# beyond it they are drawn, so that a fault, or a plan with many copies, does not make tracing costly.
MAX_EXCEPTIONAL_SHARE: Final = 0.1
EXCEPTIONAL_GAIN: Final = 1 / 256  # weight of one request in the moving share of exceptional requests
SHARE_DIGITS: Final = 2  # so that few different values of the share are written
_LOW_BITS: Final = (1 << 64) - 1
_LOST_BITS: Final = 11  # of 64, which a float cannot hold: it would round the largest number up to 1
_DRAW_UNIT: Final = 2.0 ** (_LOST_BITS - 64)


class KeepReason(StrEnum):
    """Reason for keeping the spans of a request (`kw.sample.reason`); the first that applies is stated."""

    ASKED = "asked"  # the caller records the trace
    CONTROL = "control"
    FIRST = "first"  # too few requests before it to say what is slow
    SLOW = "slow"
    FAILED = "failed"
    PARTIAL = "partial"
    COPIED = "copied"
    RETRIED = "retried"
    LATE = "late"
    DRAWN = "drawn"


class Kept(NamedTuple):
    """Decision to keep a request's spans.

    Attributes:
        share: probability with which a request like this one is kept, above 0, at most 1.
    """

    reason: KeepReason
    share: float


class RunningQuantile:
    """Quantile of recent values of a stream, in fixed memory.

    The estimate starts at the quantile of the first values. Then each value beyond it raises it by a factor,
    and each other value lowers it by so much less that it stays where the right share of values is beyond
    (stochastic approximation, of the logarithm). So it follows a stream that changes.

    Args:
        share: quantile, between 0 and 1.
        least: number of values from which on the quantile is known, 1 or more.
    """

    __slots__ = ("_down", "_first", "_least", "_share", "_up", "value")

    def __init__(self, share: float, *, least: int) -> None:
        self._share = share
        self._least = least
        self._up = exp(STEP * share)
        self._down = exp(-STEP * (1.0 - share))
        self._first: list[float] = []
        self.value: float | None = None

    def add(self, value: float) -> bool:
        """Count one value, above 0; returns whether it is beyond the quantile of those before it."""
        known = self.value
        if known is not None:
            beyond = value > known
            self.value = known * (self._up if beyond else self._down)
            return beyond
        self._first.append(max(value, MIN_VALUE))
        if len(self._first) >= self._least:
            self._first.sort()
            self.value = self._first[min(int(self._share * self._least), self._least - 1)]
            self._first = []
        return False


def draw_of(trace_id: int) -> float:
    """Number of a trace from 0 to below 1, made of the lower 64 bits of its id: uniform for random ids."""
    return ((trace_id & _LOW_BITS) >> _LOST_BITS) * _DRAW_UNIT


class RequestSampling(msgspec.Struct, gc=False):
    """Sampling of one request while it runs.

    Attributes:
        draw: number of the request from 0 to 1, below which a probability keeps it.
        share: probability with which it is kept so far.
        reason: why it is kept for certain; None if it is not.
        kept: whether its spans will be kept whatever happens; replicas are told.
        exceptional: what first happened to it that makes it worth keeping; None for nothing.
    """

    draw: float
    share: float
    reason: KeepReason | None
    kept: bool
    exceptional: KeepReason | None = None


class TraceSampler:
    """Decides which requests' spans are kept.

    Args:
        drawn_share: share of all requests that is drawn uniformly, above 0, at most 1.

    Raises:
        InputError: the share is out of range.
    """

    def __init__(self, drawn_share: float = DRAWN_SHARE) -> None:
        if not 0 < drawn_share <= 1:
            raise InputError(
                f"must be a share above 0 and at most 1, not {drawn_share}", where="share of traces"
            )
        self._drawn_share = drawn_share
        self._slow = RunningQuantile(SLOW_QUANTILE, least=MIN_REQUESTS_FOR_SLOW)
        self._exceptional = 0.0
        self.kept: dict[KeepReason, int] = dict.fromkeys(KeepReason, 0)
        self.dropped = 0

    def begin(self, trace_id: int, *, asked: bool, control: bool) -> RequestSampling:
        """Begin the sampling of a request.

        Args:
            trace_id: id of its trace, 128 bits, of which the lower 64 are uniformly distributed.
            control: whether the request is one of the control share.
        """
        draw, share = draw_of(trace_id), self._drawn_share
        if asked:
            reason = KeepReason.ASKED
        elif control:
            reason = KeepReason.CONTROL
        elif self._slow.value is None:
            reason = KeepReason.FIRST
        else:
            return RequestSampling(draw, share, None, draw < share)
        return RequestSampling(draw, share, reason, kept=True)

    def note(self, request: RequestSampling, reason: KeepReason) -> None:
        """Note what happened to a request; its probability may rise, and it never falls."""
        if request.exceptional is not None:
            return
        request.exceptional = reason
        if self._exceptional > MAX_EXCEPTIONAL_SHARE:
            request.share = max(request.share, round(MAX_EXCEPTIONAL_SHARE / self._exceptional, SHARE_DIGITS))
        else:
            request.share = 1.0
        request.kept = request.kept or request.draw < request.share

    def end(self, request: RequestSampling, took_s: float, *, failed: bool, partial: bool) -> Kept | None:
        """Decide about a request at its end; None to drop its spans.

        Args:
            failed: whether it failed or was given up.
            partial: whether a part of its answer is missing.
        """
        if failed:
            self.note(request, KeepReason.FAILED)
        elif partial:
            self.note(request, KeepReason.PARTIAL)
        slow = not failed and self._slow.add(took_s)
        self._exceptional += EXCEPTIONAL_GAIN * ((request.exceptional is not None) - self._exceptional)
        # There are four cases:
        # 1. Kept for certain from its start.
        # 2. Slow: kept for certain.
        # 3. Drawn, from all requests or from the exceptional ones, whichever share is larger.
        # 4. Not drawn.
        if request.reason is not None:
            kept = Kept(request.reason, 1.0)
        elif slow:
            kept = Kept(KeepReason.SLOW, 1.0)
        elif request.draw < request.share:
            kept = Kept(request.exceptional or KeepReason.DRAWN, request.share)
        else:
            self.dropped += 1
            return None
        self.kept[kept.reason] += 1
        return kept
