"""Workloads: what an operator wants to run, with a performance target, and the document that lists them."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert
from kwiken.base.parsing.strict_toml import parse_toml

MAX_BYTES: Final = 16 << 20  # of a document of workloads
MAX_WORKLOADS: Final = 10_000
MAX_NAME_LENGTH: Final = 200
MAX_REPLICAS: Final = 10_000
MAX_PRIORITY: Final = 1000
MAX_MEMORY_GB: Final = 1e6


MAX_WORK_VARIATION: Final = 100.0  # coefficient of variation of the work of calls
WorkVariation = Annotated[float, msgspec.Meta(ge=0, le=MAX_WORK_VARIATION)]


class Measure(StrEnum):
    """Performance measure of a workload, the unit of its target and of its profile.

    Attributes:
        RATE: requests per second that meet the latency target.
        CAPACITY: requests per second of replicas that are never idle, whatever the latency. A target of a p99
            at a rate takes it too, and leaves room for waiting.
        COMPLETIONS: completions per second: the inverse of the completion time.
        IPS: instructions per second.
    """

    RATE = "rate"
    CAPACITY = "capacity"
    COMPLETIONS = "completions"
    IPS = "ips"


class Spread(StrEnum):
    """Anti-affinity: what no two replicas of a workload may share.

    Attributes:
        NONE: nothing; replicas may share a node.
        NODE: the node.
        ZONE: the zone.
    """

    NONE = "none"
    NODE = "node"
    ZONE = "zone"


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Performance target of a workload in its own terms (Quasar section 4); one of three groups.

    Attributes:
        p99_ms: largest p99 latency, milliseconds; together with `rate_per_s`.
        rate_per_s: rate at which the latency must hold, requests per second; together with `p99_ms`.
        completion_s: longest time from start to completion, seconds.
        ips: least instructions per second.
    """

    p99_ms: float | None = None
    rate_per_s: float | None = None
    completion_s: float | None = None
    ips: float | None = None

    def __post_init__(self) -> None:
        """Check that one group is given whole, with finite numbers above 0."""
        if (self.p99_ms is None) != (self.rate_per_s is None):
            raise ValueError("p99_ms and rate_per_s go together")
        groups = sum(value is not None for value in (self.p99_ms, self.completion_s, self.ips))
        if groups != 1:
            raise ValueError("needs one of: p99_ms with rate_per_s, completion_s, ips")
        for name in ("p99_ms", "rate_per_s", "completion_s", "ips"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:  # NaN fails too
                raise ValueError(f"{name} must be a finite number above 0, not {value}")

    @property
    def measure(self) -> Measure:
        """Performance measure that the target is about."""
        if self.p99_ms is not None:
            return Measure.RATE
        return Measure.COMPLETIONS if self.completion_s is not None else Measure.IPS

    def judged_by(self, measure: Measure) -> bool:
        """Whether performance in a measure tells if the target is met.

        Args:
            measure: performance measure of the workload's profile or measurements.
        """
        return measure is self.measure or (self.measure is Measure.RATE and measure is Measure.CAPACITY)

    @property
    def required(self) -> float:
        """Performance that meets the target: requests, completions, or instructions per second."""
        if self.rate_per_s is not None:
            return self.rate_per_s
        if self.completion_s is not None:
            return 1.0 / self.completion_s
        assert self.ips is not None  # one group is given
        return self.ips


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One workload to be placed; all of its replicas are alike.

    Attributes:
        memory_gb: memory that each replica needs, in GB.
        target: performance target; None for best-effort work only.
        best_effort: whether the workload has no guarantee, and may be evicted for others.
        stateful: whether a replica holds state that must move with it.
        priority: order of admission and of eviction; a higher number is served first, and evicted last.
        max_replicas: most replicas of the workload.
        spread: what no two replicas may share.
        min_nodes: least number of nodes that its replicas stand on, each on one of its own; 2 for a workload
            that has to go on answering while one node is lost.
        service: name of the service that the workload is a part of; empty for none.
        stage: name of the stage of that service; empty for the whole service.
        shard: shard of the stage that the replicas hold; None for all shards.
        command: program and arguments of best-effort work that `kwiken up` starts on its nodes; empty for
            work that is started elsewhere.
    """

    name: str
    memory_gb: float
    target: Target | None = None
    best_effort: bool = False
    stateful: bool = False
    priority: int = 0
    max_replicas: int = 100
    spread: Spread = Spread.NONE
    min_nodes: int = 1
    service: str = ""
    stage: str = ""
    shard: int | None = None
    command: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check names, bounds, and that a target is given exactly where one is promised."""
        if not 0 < len(self.name) <= MAX_NAME_LENGTH:
            raise ValueError(f"name must have 1 to {MAX_NAME_LENGTH} characters")
        if not 0 < self.memory_gb <= MAX_MEMORY_GB:
            raise ValueError(f"memory_gb must be above 0 and at most {MAX_MEMORY_GB:g}, not {self.memory_gb}")
        if not 1 <= self.max_replicas <= MAX_REPLICAS:
            raise ValueError(f"max_replicas must be from 1 to {MAX_REPLICAS}, not {self.max_replicas}")
        self._check_nodes()
        if abs(self.priority) > MAX_PRIORITY:
            raise ValueError(f"priority must be from -{MAX_PRIORITY} to {MAX_PRIORITY}, not {self.priority}")
        if (self.target is None) != self.best_effort:
            raise ValueError("needs a target, or best_effort = true, and not both")
        if self.stage and not self.service:
            raise ValueError("a stage needs the service that it belongs to")
        if self.command and not self.best_effort:
            raise ValueError("command is for best-effort work alone")
        if self.shard is not None and (self.shard < 0 or not self.stage):
            raise ValueError("shard counts from 0, and needs the stage that it belongs to")

    def _check_nodes(self) -> None:
        if not 1 <= self.min_nodes <= self.max_replicas:
            raise ValueError(f"min_nodes must be from 1 to max_replicas, not {self.min_nodes}")
        if self.min_nodes > 1 and (self.spread is Spread.NONE or self.best_effort):
            raise ValueError("min_nodes above 1 needs a target, and spread = node or zone")


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    workloads: list[Workload]


def workloads_from_toml(text: str | bytes, *, where: str) -> tuple[Workload, ...]:
    """Workloads of a `workloads.toml`, in the document's order.

    Args:
        text: TOML document with one table `[[workloads]]` for each workload.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the line of broken syntax, or the table and field that is wrong or unknown.
    """
    raw = parse_toml(text, where=where, max_bytes=MAX_BYTES)
    workloads = tuple(convert(raw, _Document, where=where).workloads)
    if not 1 <= len(workloads) <= MAX_WORKLOADS:
        raise InputError(f"needs 1 to {MAX_WORKLOADS} workloads, not {len(workloads)}", where=where)
    seen: set[str] = set()
    for place, workload in enumerate(workloads):
        if workload.name in seen:
            raise InputError(f"workloads[{place}].name: {workload.name!r} is given twice", where=where)
        seen.add(workload.name)
    return workloads
