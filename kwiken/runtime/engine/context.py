"""Context of a call: what an executor, a request and a call share, and one attempt of a call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec

from kwiken.otel.write import AttemptRecord, StageRecord
from kwiken.runtime.decisions import (
    Admission,
    CompiledStage,
    Ledger,
    Program,
    ReplicaState,
    RequestBudget,
)
from kwiken.runtime.engine.recorder import Recorder
from kwiken.runtime.tracebacks import ExceptionRecorder
from kwiken.runtime.transport import Call, Transport


class Shared:
    """Objects that all calls of an executor share."""

    __slots__ = ("admission", "exceptions", "ledger", "now", "rng", "transport")

    def __init__(
        self,
        *,
        transport: Transport,
        now: Callable[[], float],
        rng: random.Random,
        ledger: Ledger,
        admission: Admission,
    ) -> None:
        self.transport = transport
        self.now = now
        self.rng = rng
        self.ledger = ledger
        self.admission = admission
        self.exceptions = ExceptionRecorder(now)


class Request:
    """State of one request while it runs. Times in seconds.

    Attributes:
        lost: by stage, replicas that were lost or hung while serving this request and were not ejected
            before; None for none.
        sampled: whether the caller records the trace, or this process may.
    """

    __slots__ = (
        "budget",
        "control",
        "deadline",
        "loop",
        "lost",
        "lost_weight",
        "partial",
        "priority",
        "program",
        "recorder",
        "sampled",
        "span_id",
        "started",
        "trace_id",
    )

    def __init__(
        self,
        program: Program,
        *,
        loop: asyncio.AbstractEventLoop,
        started: float,
        deadline: float,
        priority: int,
        control: bool,
        trace: tuple[int, int],
        recorder: Recorder | None,
        sampled: bool = False,
    ) -> None:
        self.program = program
        self.loop = loop
        self.started = started
        self.deadline = deadline
        self.priority = priority
        self.control = control
        self.trace_id, self.span_id = trace
        self.recorder = recorder
        self.sampled = sampled
        self.budget = RequestBudget(program.request_budget)
        self.partial = False
        self.lost_weight = 0.0
        self.lost: dict[str, set[ReplicaState]] | None = None

    def record_loss(self, stage: str, attempt: Attempt) -> None:
        """Record that a replica failed while serving this request; ejected replicas do not count."""
        if attempt.was_healthy:
            if self.lost is None:
                self.lost = {}
            self.lost.setdefault(stage, set()).add(attempt.target)


class CallSite(msgspec.Struct, frozen=True, eq=False):
    """What is called, and for whom: the same for all attempts of a call.

    Attributes:
        shared: objects that all calls of the executor share.
        request: state of the request.
        stage: stage to call.
        args: arguments of the stage's handler.
        shard: number of the shard, from 0.
        note: record of the stage run; None if nothing is recorded.
    """

    shared: Shared
    request: Request
    stage: CompiledStage
    args: tuple[Any, ...]
    shard: int
    note: StageRecord | None


class Attempt(msgspec.Struct, eq=False):
    """One attempt of a call.

    Attributes:
        number: number of the attempt, from 0.
        target: state of the replica that it is sent to.
        started: moment at which it was sent, seconds.
        threads: threads that it may use, 1 or more.
        ticket: ticket of the call at the replica's state.
        was_healthy: whether the replica was not ejected when it was sent.
        kind: position of its kind in `ATTEMPT_KINDS`.
        open: whether it has no outcome yet.
        note: record of the attempt; None if nothing is recorded.
        call: the call as it was handed to the transport; None before.
    """

    number: int
    target: ReplicaState
    started: float
    threads: int
    ticket: int
    was_healthy: bool
    kind: int = 0
    open: bool = True
    note: AttemptRecord | None = None
    call: Call | None = None
