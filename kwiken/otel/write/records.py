"""Records of requests, stages and attempts: plain values that are converted to spans after the request.

Records are cheap, so every request is recorded, and sampling can wait until its latency is known. All times
are nanoseconds since 1970; identifiers are the integers that OpenTelemetry uses. Records are in no cycles, so
the garbage collector need not look at them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec


class Outcome(StrEnum):
    """Outcome of an attempt (`kw.outcome`)."""

    __hash__ = str.__hash__  # that of `Enum` is a function in Python; spans look attributes up by outcomes

    WON = "won"
    LOST = "lost"
    CANCELLED = "cancelled"
    FAILED = "failed"


class AttemptKind(StrEnum):
    """Reason for sending an attempt (`kw.attempt.kind`)."""

    __hash__ = str.__hash__  # as above

    PRIMARY = "primary"
    REISSUE = "reissue"
    RETRY = "retry"


@dataclass(slots=True, frozen=True)
class ExceptionRecord:
    """Exception of a handler, for the event `exception` of a span (OpenTelemetry's semantic conventions).

    Attributes:
        kind: name of its type, with its module unless it is built in.
        message: its message, on one line.
    """

    kind: str
    message: str
    stacktrace: str | None = None


class Entrance(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Door that requests come in by, as the conventions of HTTP and RPC describe a server; one for each door.

    Attributes:
        url: `http://HOST:PORT` or `grpc://HOST:PORT` that it listens at.
        operation: method over HTTP; `package.Service/Method` over gRPC.
        route: path of the requests over HTTP; empty over gRPC.
        status_of: function from the error of a request, None for an answer, to the status that its client is
            sent: a number over HTTP, the code's name over gRPC, None where none is sent.
    """

    url: str
    operation: str
    route: str
    status_of: Callable[[BaseException | None], int | str | None]


class AttemptRecord(msgspec.Struct, gc=False):
    """One call to one replica.

    Attributes:
        span_id: id of the attempt's span, 64 bits.
        shard: number of the shard, from 0.
        attempt: number of the attempt within its call, from 0.
        replica: name of the replica that it went to.
        node: name of the machine that the replica runs on.
        start_ns: time at which it was sent, nanoseconds since 1970.
        end_ns: time at which it was answered or given up, nanoseconds since 1970.
        busy_ms: CPU time that the replica spent on it, milliseconds; None if the replica did not state it.
        error: error message; None for no error.
        threads: maximal number of threads that it may use, 1 or more.
        catch_up: True if it was sent, or given priority, because its request was late; for a copy, True if
            the catch-up budget pays for it.
        worth: weight of its answer beside those of the other shards, from 0 to 1; None if unknown.
        exception: exception of its handler, where the handler ran in this process; None for none.
        sent_ns: time at which the call was written to a connection, nanoseconds since 1970; None if the
            transport did not state it, or the call was given up before.
        first_byte_ns: time at which the first byte of the answer came, nanoseconds since 1970; None if none
            came, or the transport did not state it.
        address: URL of the replica, `http://HOST:PORT` or `grpc://HOST:PORT`; another text without a network.
        status: status of the answer: a number over HTTP, the code's name over gRPC; None if none came.
        first_item_ns: time of its first item, nanoseconds since 1970; None unless it won and streams.
    """

    span_id: int
    shard: int
    attempt: int
    kind: AttemptKind
    replica: str
    node: str
    start_ns: int
    end_ns: int
    outcome: Outcome
    busy_ms: float | None = None
    error: str | None = None
    threads: int = 1
    catch_up: bool = False
    worth: float | None = None
    exception: ExceptionRecord | None = None
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    address: str = ""
    status: int | str | None = None
    first_item_ns: int | None = None


class StageRecord(msgspec.Struct, gc=False):
    """One visit of one stage by a request.

    Attributes:
        span_id: id of the stage's span, 64 bits.
        fanout: number of its shards, 1 or more.
        start_ns: time at which its last parent was done, nanoseconds since 1970.
        end_ns: time at which its answer was complete, nanoseconds since 1970.
        error: error message; None for no error.
        partial: True if answers of some shards are missing.
        utility: utility of the answer, from 0 to 1.
        attempts: attempts of the calls of all shards.
        idempotent: True if a call of the stage may run twice; recorded for `kwiken fit`.
        threads: maximal number of threads of a call, 1 or more; recorded for `kwiken fit`.
        operation: method of a foreign service that its calls run, as in `Entrance`; empty for our replicas.
        first_item_ns: time of the first item, nanoseconds since 1970; None for a stage that does not stream.
    """

    span_id: int
    name: str
    after: tuple[str, ...]
    fanout: int
    start_ns: int
    end_ns: int = 0
    error: str | None = None
    partial: bool = False
    utility: float = 1.0
    attempts: list[AttemptRecord] = []
    idempotent: bool = True
    threads: int = 1
    operation: str = ""
    first_item_ns: int | None = None


class Sample(msgspec.Struct, frozen=True, gc=False):
    """Reason and probability of keeping a request among others (`kw.sample.reason`, `kw.sample.share`).

    Attributes:
        reason: why it was kept, in one word.
        share: probability with which a request like this one is kept, above 0, at most 1.
    """

    reason: str
    share: float


class RequestRecord(msgspec.Struct, gc=False):
    """One request through the DAG.

    Attributes:
        trace_id: id of the trace, 128 bits.
        span_id: id of the request's span, 64 bits.
        parent_span_id: id of the caller's span, 64 bits; None if there is none.
        start_ns: time of its arrival, nanoseconds since 1970.
        end_ns: time at which its answer was complete, nanoseconds since 1970.
        plan: digest of the plan in force; None without a plan.
        control: True for a request of the control group, which the plan does not apply to.
        error: error message; None for no error.
        cancelled: True if the request was given up, because its caller had gone for example.
        partial: True if a part that could have been in its answer is missing.
        stages: visits of stages, in the order of their start.
        sample: how it came to be kept; None where every request is kept.
        entry: door that it came in by; None for a request from within the process.
        status: status that its client is sent, as of the entry; None for none.
        first_item_ns: time of the first item, nanoseconds since 1970; None where nothing streams.
    """

    trace_id: int
    span_id: int
    parent_span_id: int | None
    service: str
    start_ns: int
    end_ns: int = 0
    plan: str | None = None
    control: bool = False
    error: str | None = None
    cancelled: bool = False
    partial: bool = False
    stages: list[StageRecord] = []
    sample: Sample | None = None
    entry: Entrance | None = None
    status: int | str | None = None
    first_item_ns: int | None = None


class Observer(Protocol):
    """Receiver of finished requests; its method must return at once."""

    def request_finished(self, record: RequestRecord) -> None:
        """Take the record of one request."""
