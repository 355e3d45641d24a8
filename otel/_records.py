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

    `threads` is how many it might use, `catch_up` whether it was sent, or went ahead of others, because its
    request was late (of copies: whether that budget pays), and `worth` what its answer turned out worth,
    relative to the other shards.
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

    So that a fit knows: `idempotent` says whether a call of it may run twice, `threads` the most that a call
    of it can use.
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
    """One request through the DAG."""

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
