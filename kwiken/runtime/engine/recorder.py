"""Recorder: record of a request from the engine's notes of stages, calls and copies.

A record is made at the end of a request, and only if somebody wants it: of most requests no spans are kept.
`otel` turns records into spans.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from kwiken.otel.write.records import (
    AttemptKind,
    AttemptRecord,
    Entrance,
    Outcome,
    RequestRecord,
    Sample,
    StageRecord,
)
from kwiken.runtime.decisions.stage_state import ATTEMPT_OUTCOMES
from kwiken.runtime.engine.hedged_call.context import Attempt, Request, StageVisit, describe
from kwiken.runtime.engine.utility import worths_of

# By position in `ATTEMPT_KINDS`: a copy because the request is late is a reissue too.
KINDS: Final = (AttemptKind.PRIMARY, AttemptKind.REISSUE, AttemptKind.REISSUE, AttemptKind.RETRY)
OUTCOMES: Final = tuple(Outcome(name) for name in ATTEMPT_OUTCOMES)


def record_of(
    request: Request,
    service: str,
    *,
    parent_span_id: int | None,
    ended: float,
    error: BaseException | None,
    sample: Sample | None,
    rng: random.Random,
    entry: Entrance | None = None,
) -> RequestRecord:
    """Make the record of a request that has ended.

    The wall clock was read once, when the request began; all times are counted from there by the monotonic
    clock, so that no record ends before it starts, however the wall clock is set.

    Args:
        parent_span_id: id of the caller's span, 64 bits; None if there is none.
        ended: moment of its end, seconds.
        sample: how it came to be kept; None where every request is kept, and for one that is not.
        rng: source of randomness for the choice of the fan-outs that are judged.
        entry: door that it came in by; None for a request from within the process.
    """
    zero_ns = request.start_ns - round(request.started * 1e9)
    end_ns = zero_ns + round(ended * 1e9)
    return RequestRecord(
        trace_id=request.trace_id,
        span_id=request.span_id,
        parent_span_id=parent_span_id,
        service=service,
        start_ns=request.start_ns,
        end_ns=end_ns,
        plan=request.program.digest,
        control=request.control,
        error=describe(error),
        cancelled=isinstance(error, asyncio.CancelledError),
        partial=request.partial and error is None,
        stages=[_stage(request, visit, zero_ns, end_ns, rng) for visit in request.visits or ()],
        sample=sample,
        entry=entry,
        status=None if entry is None else entry.status_of(error),
        first_item_ns=zero_ns + round(request.first_item * 1e9) if request.first_item else None,
    )


def _stage(
    request: Request, visit: StageVisit, zero_ns: int, request_end_ns: int, rng: random.Random
) -> StageRecord:
    """Record of one visit; a visit that was cut short ends with its request."""
    definition = visit.stage.definition
    remote = definition.remote_call
    worths = None if visit.values is None else worths_of(definition, visit.values, rng)
    attempts = [_attempt(request, attempt, zero_ns, worths) for attempt in visit.attempts]
    return StageRecord(
        span_id=request.next_span_id(),
        name=definition.name,
        after=definition.after,
        fanout=definition.fanout,
        start_ns=zero_ns + round(visit.started * 1e9),
        end_ns=zero_ns + round(visit.ended * 1e9) if visit.ended else request_end_ns,
        error=visit.error,
        partial=visit.utility is not None,
        utility=1.0 if visit.utility is None else visit.utility,
        attempts=attempts,
        idempotent=definition.idempotent,
        threads=definition.threads,
        operation="" if remote is None else remote.method,
        first_item_ns=next((each.first_item_ns for each in attempts if each.first_item_ns), None),
    )


def _attempt(request: Request, attempt: Attempt, zero_ns: int, worths: list[float] | None) -> AttemptRecord:
    """Record of one attempt; one without an outcome was given up at once."""
    replica, call = attempt.target.replica, attempt.call
    outcome = Outcome.CANCELLED if attempt.outcome is None else OUTCOMES[attempt.outcome]
    start_ns = zero_ns + round(attempt.started * 1e9)
    record = AttemptRecord(
        attempt.span_id or request.next_span_id(),
        attempt.shard,
        attempt.number,
        KINDS[attempt.kind],
        replica.id,
        replica.node,
        start_ns,
        start_ns if attempt.outcome is None else zero_ns + round(attempt.ended * 1e9),
        outcome,
        attempt.busy_ms,
        attempt.error,
        attempt.threads,
        attempt.catch_up,
        worths[attempt.shard] if worths is not None and outcome is Outcome.WON else None,
        attempt.exception,
        address=replica.address,
    )
    if call is not None:
        record.status = call.status
        if call.sent:
            record.sent_ns = zero_ns + round(call.sent * 1e9)
        if attempt.first_item:
            record.first_item_ns = zero_ns + round(attempt.first_item * 1e9)
        if call.first_byte:
            record.first_byte_ns = zero_ns + round(call.first_byte * 1e9)
    return record
