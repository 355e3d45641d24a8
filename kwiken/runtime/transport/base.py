"""What carries calls to replicas: the seam between the executor and the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

MAX_PRIORITY: Final = 9


class Replica(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server process of a stage.

    Attributes:
        id: unique among the replicas of a service.
        node: name of the machine that it runs on; copies prefer another.
        address: what the transport needs to reach it, a URL say.
    """

    id: str
    node: str
    address: str


class Call(msgspec.Struct):
    """One call of one stage, as sent to one replica.

    Attributes:
        stage: its name.
        args: the parents' answers in the order of `after`; for a source, the request alone.
        shard: number of the shard, from 0; 0 where the stage is no fan-out.
        attempt: number of the attempt, from 0; 0 is the primary.
        deadline: moment after which nobody waits for the answer, seconds of the injected clock's `monotonic`.
        priority: of the call; higher is more important.
        trace_id: of the request, as OpenTelemetry's integer.
        span_id: of the attempt: the parent of whatever spans the replica makes.
        threads: how many the handler may use.
    """

    stage: str
    args: tuple[Any, ...]
    shard: int
    attempt: int
    deadline: float
    priority: int
    trace_id: int
    span_id: int
    threads: int = 1


class Reply(msgspec.Struct):
    """A replica's answer.

    Attributes:
        value: of the handler.
        busy_ms: how long the handler worked on it; None where unknown.
        inflight: calls at the replica when it answered, this one included; None where unknown.
        latency_ms: the replica's own estimate of its latency; None where unknown.
    """

    value: Any
    busy_ms: float | None = None
    inflight: int | None = None
    latency_ms: float | None = None


class Transport(Protocol):
    """Sends calls to replicas, by whatever wire."""

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Send one call and wait for its answer; being cancelled cancels it at the replica too, at once.

        Args:
            replica: where to send it.
            call: what to send.

        Raises:
            RefusedError: it did not run.
            LostError: it was sent; whether it ran is not known.
            UnfitError: it ran, and the answer is not of the stage's type.
            HandlerError: the handler raised.
            DeadlineError: the replica dropped it because its deadline had passed.
        """

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Ask a replica for a sign of life; return at once.

        The transport owns the question, and drops it when it is closed.

        Args:
            replica: whom to ask.
            heard: called later with whether the replica answered, unless the transport is closed before.
        """
