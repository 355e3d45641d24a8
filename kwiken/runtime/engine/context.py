"""State of one request while it runs, and the objects that all requests of an executor share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from kwiken.otel.write import AttemptRecord
from kwiken.runtime.decisions import Admission, Ledger, Program, ReplicaState, RequestBudget
from kwiken.runtime.engine.recorder import Recorder
from kwiken.runtime.transport import Transport


class Shared:
    """Objects that all calls of an executor share."""

    __slots__ = ("admission", "ledger", "now", "rng", "transport")

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


class Request:
    """State of one request while it runs. Times in seconds.

    Attributes:
        lost: by stage, replicas that were lost or hung while serving this request and were not ejected
            before; None for none.
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
    ) -> None:
        self.program = program
        self.loop = loop
        self.started = started
        self.deadline = deadline
        self.priority = priority
        self.control = control
        self.trace_id, self.span_id = trace
        self.recorder = recorder
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


class Attempt:
    """One attempt of a call: its replica, start and record."""

    __slots__ = ("note", "number", "open", "started", "target", "threads", "ticket", "was_healthy")

    def __init__(self, number: int, target: ReplicaState, started: float, threads: int = 1) -> None:
        self.number = number
        self.threads = threads
        self.target = target
        self.started = started
        self.ticket = target.take(started)
        self.was_healthy = not target.ejected
        self.note: AttemptRecord | None = None
        self.open = True
