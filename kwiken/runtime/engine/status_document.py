"""Status document of a gateway: its fields, and one document of several gateways together. Pure.

Counts and rates are added. A share of work is averaged, weighted by each gateway's work. Percentiles cannot
be combined, so the slowest gateway's are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NotRequired, TypedDict

Figures = Mapping[str, Any]


class RecentStatus(TypedDict):
    """Figures of the last seconds; None where there were no requests."""

    answered: int
    rate_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None


class AccountStatus(TypedDict):
    """Account of a budget, in requests' costs or utilities for the service, in calls for a stage."""

    fraction: float
    work: float
    spent: float
    spent_share: float
    horizon_s: float
    horizon_share: float
    left: float
    peak: float
    share_10s: float
    worst_10s: float | None
    floor_spent: float
    denied: int
    denied_by: dict[str, int]
    observed_share: NotRequired[float | None]
    part: NotRequired[float]
    floor_part: NotRequired[float]


class ReplicaStatus(TypedDict):
    """State of a replica as a gateway sees it."""

    id: str
    node: str
    address: str
    inflight: int
    latency_ms: float | None
    ejected: bool
    failing: float
    trouble: str | None


class StageStatus(TypedDict):
    """Counts, latencies (to the first item where it streams), budget and replicas of a stage."""

    foreign: bool
    streams: bool
    calls: int
    failed: int
    reissues: int
    put_off: int
    retries: int
    resends: int
    p50_ms: float | None
    p99_ms: float | None
    recent: RecentStatus
    busy_ms: float
    late: dict[str, int]
    partial: dict[str, int]
    ledger: AccountStatus
    replicas: list[ReplicaStatus]
    cost: dict[str, float | None]


class ArmStatus(TypedDict):
    """Counts of an arm since the setting came into force: by the number of a bucket of latencies."""

    failed: int
    cells: dict[str, int]


class ExecutorStatus(TypedDict):
    """Status of an executor; `plan` and `trial` are digests of the plans in force and on trial."""

    plan: str | None
    trial: str | None
    trial_share: float
    control_share: float
    arms: dict[str, ArmStatus]
    requests: int
    failed: int
    cancelled: int
    partial: int
    control: int
    lost_utility: dict[str, float]
    recent: RecentStatus
    shed: int
    inside: int
    room: int
    load: float
    line_ms: float | None
    lines: Any  # as `_lines` of an executor with lines writes them; None for others
    reissues: int
    late_reissues: int
    retries: int
    ledger: AccountStatus
    catch_up: AccountStatus
    utility: AccountStatus
    traces: Any  # numbers `kept` by reason and `dropped`; None without a sampler
    stages: dict[str, StageStatus]


class Status(ExecutorStatus):
    """Status of a gateway, or of several together, which has `gateways` and those that did not answer.

    `answered` counts requests by status of HTTP, `author` put the plan in force, `revision` is its own, made
    at gateway `by`, `autopilot` is the last note of an autopilot, `plan_unkept` the reason why the plan in
    force is not saved.
    """

    service: str
    gateway: str
    state: str
    uptime_s: float
    answered: dict[str, int]
    author: str | None
    revision: int
    by: str
    autopilot: dict[str, Any] | None
    plan_unkept: str | None
    gateways: NotRequired[list[dict[str, Any]]]
    gateways_silent: NotRequired[list[str]]


def merged_status(statuses: Sequence[Figures], silent: Sequence[str] | None = None) -> dict[str, Any]:
    """One status of the gateways of a service, with a line for each.

    Args:
        statuses: status of each gateway that answered, one or more.
        silent: gateways that did not answer, each with the reason; None to name none.
    """
    named = {} if silent is None else {"gateways_silent": list(silent)}
    return combined(statuses) | {"gateways": gateway_lines(statuses)} | named


def combined(parts: Sequence[Figures]) -> dict[str, Any]:
    """Combine documents of gateways of one service, as statuses and samples of them.

    Args:
        parts: document of each gateway, one or more.

    Returns:
        A document of the same form. Where gateways are under different plans, for the moment in which a new
        plan reaches them, `plan` is the first one's.
    """
    return dict(parts[0]) if len(parts) == 1 else _combined(parts)


def gateway_lines(statuses: Sequence[Figures]) -> list[dict[str, Any]]:
    """Line of each gateway: its name, its counts of requests, and its last seconds.

    Args:
        statuses: status of each gateway, one or more.
    """
    return [
        {
            "gateway": status.get("gateway", ""),
            **{name: status[name] for name in ("requests", "failed", "partial", "shed", "reissues")},
            "recent": {name: status["recent"][name] for name in ("rate_per_s", "p50_ms", "p99_ms")},
            **{name: status.get(name) for name in ("plan", "revision", "by")},
        }
        for status in statuses
    ]


def _combined(parts: Sequence[Figures]) -> dict[str, Any]:
    return {
        name: _of_field(name, [part[name] for part in parts if name in part], parts)
        for name in dict.fromkeys(name for part in parts for name in part)
    }


def _of_field(name: str, values: list[Any], parts: Sequence[Figures]) -> Any:
    if name in WEIGHTED:
        return _weighted(name, parts)
    known = [value for value in values if value is not None]
    rule = RULES.get(name, _nested_or_sum)
    return rule(known) if known else None


def _nested_or_sum(values: list[Any]) -> Any:
    return _combined(values) if isinstance(values[0], Mapping) else sum(values)


def _by_name(values: list[Any]) -> dict[str, Any]:
    """Entries whose names others chose, such as stages and kinds of requests: no rule goes by these names."""
    found: dict[str, list[Figures]] = {}
    for each in values:
        for name, figures in each.items():
            found.setdefault(name, []).append(figures)
    return {name: _combined(those) for name, those in found.items()}


def _first(values: list[Any]) -> Any:
    return values[0]


def _author(values: list[str]) -> str:
    """Who put the plan in force: a person, if one did so at any gateway, for the others follow."""
    return PERSON if PERSON in values else values[0]


def _newest(notes: list[Figures]) -> Figures:
    """Newest note of an autopilot: a gateway that it did not reach for a while has an older one."""
    return max(notes, key=lambda note: float(note["at_s"]))


def _replicas(lists: list[Any]) -> list[dict[str, Any]]:
    """Replicas by their address: every gateway knows all of them."""
    by_address: dict[str, list[Figures]] = {}
    for each in lists:
        for replica in each:
            by_address.setdefault(replica["address"], []).append(replica)
    return [_combined(those) for those in by_address.values()]


def _weighted(name: str, parts: Sequence[Figures]) -> float:
    work = sum(float(part["work"]) for part in parts)
    return sum(float(part[name]) * float(part["work"]) for part in parts) / work if work else 0.0


PERSON: Final = "person"
WEIGHTED: Final = (
    "spent_share",
    "horizon_share",
    "share_10s",
    "observed_share",
)  # weights: the work of each gateway
# Rules for fields that cannot be added; gateways that do not know a value are left out.
RULES: Final[Mapping[str, Callable[[list[Any]], Any]]] = {
    **dict.fromkeys(
        ("load", "line_ms", "p50_ms", "p99_ms", "worst_10s", "latency_ms", "failing", "uptime_s"), max
    ),
    **dict.fromkeys(("service_ms", "wait_p50_ms", "wait_p99_ms"), max),
    **dict.fromkeys(
        ("plan", "service", "gateway", "fraction", "peak", "horizon_s", "id", "node", "address"), _first
    ),
    "revision": max,
    **dict.fromkeys(("foreign", "streams", "trouble", "by", "plan_unkept", "state"), _first),
    # Where gateways have yet to follow, a trial is told of as soon as one has it.
    **dict.fromkeys(("trial_share", "control_share", "charged", "observed"), max),
    "trial": _first,
    "author": _author,
    "autopilot": _newest,
    **dict.fromkeys(("stages", "kinds"), _by_name),
    "ejected": any,
    "replicas": _replicas,
}
