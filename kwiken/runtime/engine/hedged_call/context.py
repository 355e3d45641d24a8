"""Context of a call: what an executor, a request and a call share, and one attempt of a call.

Visits of stages and their attempts are also what is noted of a request while it runs. Its record is made of
them when it has ended, if anybody wants the record: see `recorder`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from kwiken.model.plan.arm_accounts import ArmAccounts
from kwiken.otel.write.records import ExceptionRecord
from kwiken.runtime.base.tracebacks import ExceptionRecorder
from kwiken.runtime.decisions.admission import Admission
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.compiled_stage import CompiledStage
from kwiken.runtime.decisions.delays.common_delay import CommonDelay
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger, RequestBudget
from kwiken.runtime.decisions.program import Program
from kwiken.runtime.decisions.trace_sampling import RequestSampling, TraceSampler
from kwiken.runtime.wire.transport.base import Call, Held, Transport

# Odd, so that its multiples run through all 64-bit numbers, and near the golden ratio, so that they lie far
# apart (a Weyl sequence).
SPAN_ID_STEP: Final = 0x9E3779B97F4A7C15
SPAN_ID_MASK: Final = (1 << 64) - 1
MAX_ERROR_LENGTH: Final = 500  # characters


Deliver = Callable[[list[Any]], Awaitable[None]]


class Shared:
    """Objects that all calls of an executor share; `sampler` is None where every request is kept."""

    __slots__ = ("admission", "common_delay", "exceptions", "ledger", "now", "rng", "sampler", "transport")

    def __init__(
        self,
        *,
        transport: Transport,
        now: Callable[[], float],
        rng: random.Random,
        ledger: Ledger,
        admission: Admission,
        sampler: TraceSampler | None = None,
    ) -> None:
        self.transport = transport
        self.now = now
        self.rng = rng
        self.ledger = ledger
        self.admission = admission
        self.sampler = sampler
        self.exceptions = ExceptionRecorder(now)
        self.common_delay = CommonDelay()


class Request(msgspec.Struct, eq=False):
    """State of one request while it runs. Times in seconds.

    Attributes:
        program: stages with the policies of the plan that was in force when the request began.
        budget: what it may still spend on copies of its calls.
        started: moment at which it began.
        deadline: moment at which its time is up.
        priority: 0 is normal, higher is more important.
        control: whether no lever touches the request.
        trace_id: id of its trace; 0 for none.
        span_id: id of its span; 0 for none.
        context: trace context for calls whose attempts have no ids, as W3C's header; empty for none.
        sampled: whether replicas are to record the spans of attempts that have ids.
        sampling: sampling of its spans; None where they are not sampled.
        visits: its visits of stages so far, in the order of their start; None if nothing is recorded.
        start_ns: time of its arrival, nanoseconds since 1970; known if the request is recorded.
        spans: number of span ids that were given to its attempts.
        answered: stages with an answer so far, a bit for each position in the program.
        partial: whether a part that could have been in its answer is missing.
        lost_weight: utility weight that its answer lacks.
        failed_weight: the part of it that failures caused; the rest was chosen by a stop rule.
        lost: by stage, replicas that were lost or hung while serving this request and were not ejected
            before; None for none.
        arm: accounts of its arm while a plan is tried; None for none.
        held: bytes that are held for it; None where nobody counts them.
        deliver: takes the items of a stage that streams as they come, and returns when there is room for
            more; None to collect them.
        first_item: moment of the first item, seconds; 0 before, and where the last stage does not stream.
    """

    program: Program
    budget: RequestBudget
    loop: asyncio.AbstractEventLoop
    started: float
    deadline: float
    priority: int
    control: bool
    trace_id: int
    span_id: int
    context: str = ""
    sampled: bool = False
    sampling: RequestSampling | None = None
    visits: list[StageVisit] | None = None
    start_ns: int = 0
    spans: int = 0
    answered: int = 0
    partial: bool = False
    lost_weight: float = 0.0
    failed_weight: float = 0.0
    lost: dict[str, set[ReplicaState]] | None = None
    arm: ArmAccounts | None = None
    held: Held | None = None
    deliver: Deliver | None = None
    first_item: float = 0.0

    def next_span_id(self) -> int:
        """Id of a further span, 64 bits: derived from that of the request's, which is random."""
        self.spans += 1
        return (self.span_id + self.spans * SPAN_ID_STEP) & SPAN_ID_MASK or 1

    def record_loss(self, stage: str, attempt: Attempt) -> None:
        """Record that a replica failed while serving this request; ejected replicas do not count."""
        if attempt.was_healthy:
            if self.lost is None:
                self.lost = {}
            self.lost.setdefault(stage, set()).add(attempt.target)


class CallSite(msgspec.Struct, frozen=True, eq=False):
    """Stage, request and shard of a call: the same for all attempts of the call.

    Attributes:
        shared: objects that all calls of the executor share.
        shard: number of the shard, from 0.
        visit: the visit of the stage; None if nothing is recorded.
        items: items so far of a stage with `resume`, also of calls that broke off; None for other stages.
    """

    shared: Shared
    request: Request
    stage: CompiledStage
    args: tuple[Any, ...]
    shard: int
    visit: StageVisit | None
    items: list[Any] | None = None


class StageVisit(msgspec.Struct, eq=False):
    """One visit of one stage by a request, as noted while it runs. Times in seconds.

    Attributes:
        started: moment at which its last parent was done.
        ended: moment at which its answer was complete; 0 until then.
        error: error message; None for no error.
        utility: utility of the answer, from 0 to 1, if answers of some shards are missing; else None.
        values: answers of all shards of a whole fan-out, by which their worths are judged; else None.
        attempts: attempts of the calls of all shards, in the order in which they were sent.
    """

    stage: CompiledStage
    started: float
    ended: float = 0.0
    error: str | None = None
    utility: float | None = None
    values: tuple[Any, ...] | None = None
    attempts: list[Attempt] = []


class Attempt(msgspec.Struct, eq=False):
    """One attempt of a call.

    Attributes:
        number: number of the attempt, from 0.
        started: moment at which it was sent, seconds.
        threads: threads that it may use, 1 or more.
        ticket: ticket of the call at the replica's state.
        was_healthy: whether the replica was not ejected when it was sent.
        outcome: position of its outcome in `ATTEMPT_OUTCOMES`; None while it has none.
        ended: moment at which it was answered or given up, seconds; 0 until then. The answer of a stage that
            streams ends with its last item.
        first_item: moment of its first item, seconds; 0 where the stage does not stream, or before.
        busy_ms: CPU time that the replica spent on it, milliseconds; None if not stated.
        error: error message; None for no error.
        exception: exception of its handler, where the handler ran in this process; None for none.
        call: the call as it was handed to the transport; None before.
        shard: number of the shard, from 0.
        span_id: id of its span, 64 bits; 0 as long as nothing refers to it.
        catch_up: whether the attempt was sent, or got priority or threads, because the request is late; for
            a copy, whether the catch-up budget pays for it. Known if the attempt is recorded.
    """

    number: int
    target: ReplicaState
    started: float
    threads: int
    ticket: int
    was_healthy: bool
    kind: int = 0
    outcome: int | None = None
    ended: float = 0.0
    busy_ms: float | None = None
    error: str | None = None
    exception: ExceptionRecord | None = None
    call: Call | None = None
    shard: int = 0
    span_id: int = 0
    catch_up: bool = False
    first_item: float = 0.0

    @property
    def open(self) -> bool:
        """Whether it has no outcome yet."""
        return self.outcome is None


def describe(error: BaseException | None) -> str | None:
    """Describe an error in one short line; None for None."""
    return None if error is None else f"{type(error).__name__}: {error}"[:MAX_ERROR_LENGTH]
