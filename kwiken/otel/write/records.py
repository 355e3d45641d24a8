"""What the runtime notes of a request while it runs: plain values, made into spans only afterwards.

Notes are cheap, so every request can be noted and the choice which to export made when its latency is known.
All times are nanoseconds since 1970; identifiers are the integers that OpenTelemetry uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Outcome(StrEnum):
    """How an attempt ended (`kw.outcome`)."""

    WON = "won"
    LOST = "lost"
    CANCELLED = "cancelled"
    FAILED = "failed"


class AttemptKind(StrEnum):
    """Why an attempt was sent (`kw.attempt.kind`)."""

    PRIMARY = "primary"
    REISSUE = "reissue"
    RETRY = "retry"


@dataclass(slots=True)
class AttemptRecord:
    """One call to one replica.

    Attributes:
        span_id: of the attempt's span.
        shard: number of the shard, from 0.
        attempt: which attempt of its call, from 0.
        kind: why it was sent.
        replica: name of the replica that it went to.
        node: where that replica runs.
        start_ns: when it was sent, nanoseconds since 1970.
        end_ns: when it was answered or given up, nanoseconds since 1970.
        outcome: how it ended.
        busy_ms: CPU time that the replica worked on it, milliseconds; None where it did not say.
        error: what went wrong; None for nothing.
        threads: how many it might use.
        catch_up: whether it was sent, or went ahead of others, because its request was late (of copies:
            whether that budget pays).
        worth: what its answer turned out worth, a weight beside the other shards; None where unknown.
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


@dataclass(slots=True)
class StageRecord:
    """One visit of one stage.

    Attributes:
        span_id: of the stage's span.
        name: of the stage.
        after: names of its parents.
        fanout: number of its shards.
        start_ns: when its last parent was done, nanoseconds since 1970.
        end_ns: when its answer was there, nanoseconds since 1970.
        error: what went wrong; None for nothing.
        partial: whether shards' answers are missing.
        utility: worth of the answer, from 0 to 1.
        attempts: all calls of all shards.
        idempotent: whether a call of it may run twice, so that a fit knows.
        threads: the most that a call of it can use, likewise.
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
    attempts: list[AttemptRecord] = field(default_factory=list)
    idempotent: bool = True
    threads: int = 1


@dataclass(slots=True)
class RequestRecord:
    """One request through the DAG.

    Attributes:
        trace_id: of its trace, 128 bits.
        span_id: of its span, 64 bits.
        parent_span_id: of the caller's span; None where there is none.
        service: name of the service.
        start_ns: when it came in, nanoseconds since 1970.
        end_ns: when its answer was there, nanoseconds since 1970.
        plan: digest of the plan in force; None without a plan.
        control: whether the plan did nothing for it, so that latencies without it stay known.
        error: what went wrong; None for nothing.
        stages: its visits, in the order of their start.
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
    stages: list[StageRecord] = field(default_factory=list)


class Observer(Protocol):
    """Receives every finished request; must return at once."""

    def request_finished(self, record: RequestRecord) -> None:
        """Take the notes of one request."""
