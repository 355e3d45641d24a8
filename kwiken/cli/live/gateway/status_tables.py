"""Tables of `kwiken status`: stages and replicas of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

STAGES: Final = ("stage", "serving", "/s", "p50 ms", "p99 ms", "in flight", "copies", "denied", "spent")
GATEWAYS: Final = ("gateway", "requests", "/s", "p50 ms", "p99 ms", "failed", "turned away")
LINES: Final = (
    *("kind", "running", "waiting", "started", "had to wait", "wait p50 ms", "wait p99 ms", "service ms"),
    "turned away",
)
COLUMNS: Final = ("replica", "pid", "state", "in flight", "latency ms", "restarts", "address")
NODE_COLUMNS: Final = ("node", "class", "speed", "cores")  # where replicas were placed

SHOWN_DECISIONS: Final = 3
SILENT_S: Final = 30.0  # after which an autopilot, which tells of itself every 2 s, is taken to be away

Rows = list[tuple[str, ...]]


def stage_rows(figures: dict[str, Any]) -> Rows:
    """Rows of the stages, in the service's order; rates and latencies are of the last 10 s."""
    return [
        (
            name,
            f"{sum(not each['ejected'] for each in stage['replicas'])} of {len(stage['replicas'])}",
            number(stage["recent"]["rate_per_s"]),
            number(stage["recent"]["p50_ms"]),
            number(stage["recent"]["p99_ms"]),
            str(sum(each["inflight"] for each in stage["replicas"])),
            str(stage["reissues"]),
            str(stage["ledger"]["denied"]),
            f"{stage['ledger']['horizon_share']:.2%}",
        )
        for name, stage in figures["stages"].items()
    ]


def gateway_rows(lines: Sequence[dict[str, Any]]) -> Rows:
    """Rows of the gateways; rates and latencies are of the last 10 s."""
    return [
        (
            line["gateway"] or "-",
            str(line["requests"]),
            *(number(line["recent"][name]) for name in ("rate_per_s", "p50_ms", "p99_ms")),
            str(line["failed"]),
            str(line["shed"]),
        )
        for line in lines
    ]


def line_rows(lines: dict[str, Any]) -> Rows:
    """Rows of the lines of requests, one for each kind."""
    return [
        (
            kind,
            str(line["running"]),
            str(line["waiting"]),
            str(line["started"]),
            str(line["waited"]),
            number(line["wait_p50_ms"]),
            number(line["wait_p99_ms"]),
            number(line["service_ms"]),
            str(line["turned_away"]),
        )
        for kind, line in lines["kinds"].items()
    ]


def replica_columns(replicas: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Headings of `replica_rows`; nodes only where a replica was placed on one."""
    return (*COLUMNS, *(NODE_COLUMNS if _placed(replicas) else ()))


def replica_rows(replicas: Sequence[dict[str, Any]], state_of: Callable[[dict[str, Any]], str]) -> Rows:
    """Rows of the replicas.

    Args:
        replicas: replicas, as `kwiken status --json` has them.
        state_of: word for the state of a replica.
    """
    return [
        (
            each["replica"],
            number(each["pid"]),
            state_of(each),
            number(each["inflight"]),
            number(each["latency_ms"]),
            number(each["restarts"]),
            each["address"],
            *(_node(each) if _placed(replicas) else ()),
        )
        for each in replicas
    ]


def _placed(replicas: Sequence[dict[str, Any]]) -> bool:
    return any(each.get("node") is not None for each in replicas)


def _node(replica: dict[str, Any]) -> tuple[str, ...]:
    """Node of a replica with its class and speed, and the cores that the replica may use."""
    if replica.get("node") is None:
        return "-", "-", "-", "-"
    return replica["node"], replica["class"], f"{replica['speed']:.3g}", f"{replica['cores']:.3g}"


def autopilot_lines(figures: dict[str, Any], now_s: float) -> Iterator[str]:
    """What an autopilot does and why, and its last decisions; nothing where none has left a note.

    Args:
        now_s: present time, seconds since 1970, by which it is told when a loop is away.
    """
    note = figures.get("autopilot")
    if note is None:
        return
    trial = figures.get("trial")
    tried = f", plan {trial} on {figures['trial_share']:.0%} of the requests" if trial is not None else ""
    yield f"autopilot {note['phase']}{tried}: {note['sentence']}"
    if (silent_s := now_s - note["at_s"]) > SILENT_S:
        yield f"autopilot last heard of {silent_s:.0f} s ago; is its process there?"
    yield (
        f"autopilot budget {note['budget']:.2%}, {note['changes']} plans tried, "
        f"{note['useless']} of them taken back"
    )
    for line in note["history"][-SHOWN_DECISIONS:]:
        when = datetime.fromtimestamp(line["at_s"], UTC)
        yield f"  {when:%H:%M:%S} {line['action'].replace('_', ' ')}: {line['reason']}"


def number(value: float | None) -> str:
    """A figure in three digits; a dash for None."""
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
