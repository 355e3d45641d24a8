"""Combined status of a cluster's gateways: one document of the form of one gateway's. Pure.

Counts and rates are added. A share of work is averaged, weighted by each gateway's work. Percentiles cannot
be combined, so the slowest gateway's are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Figures = Mapping[str, Any]


def combined_status(statuses: Sequence[Figures]) -> dict[str, Any]:
    """Combine statuses of gateways of one service.

    Args:
        statuses: status of each gateway, one or more.

    Returns:
        A document of the same form. Where gateways are under different plans, for the moment in which a new
        plan reaches them, `plan` is the first one's.
    """
    if len(statuses) == 1:
        return dict(statuses[0])
    return _combined(statuses)


def gateway_lines(statuses: Sequence[Figures]) -> list[dict[str, Any]]:
    """Line of each gateway: its name, its counts of requests, and its last seconds.

    Args:
        statuses: status of each gateway, one or more.
    """
    return [
        {
            "gateway": status.get("gateway", ""),
            **{name: status[name] for name in LINE_COUNTS},
            "recent": {name: status["recent"][name] for name in ("rate_per_s", "p50_ms", "p99_ms")},
            "plan": status["plan"],
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
LINE_COUNTS: Final = ("requests", "failed", "partial", "shed", "reissues")
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
    **dict.fromkeys(("foreign", "trouble", "plan_unkept", "state"), _first),
    # Where gateways have yet to follow, a trial is told of as soon as one has it.
    **dict.fromkeys(("trial_share", "control_share", "charged", "observed"), max),
    "trial": _first,
    "author": _author,
    "autopilot": _newest,
    **dict.fromkeys(("stages", "kinds"), _by_name),
    "ejected": any,
    "replicas": _replicas,
}
