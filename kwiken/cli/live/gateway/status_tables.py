"""Tables of `kwiken status`: stages and replicas of a cluster."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

WIDTH: Final = 80  # characters of a line, so that the tables fit the narrowest terminal
STAGES: Final = ("stage", "serving", "/s", "p50 ms", "p99 ms", "inside", "copies", "denied", "spent")
GATEWAYS: Final = ("gateway", "requests", "/s", "p50 ms", "p99 ms", "failed", "turned away")
LINES: Final = ("kind", "running", "waiting", "waited", "p50", "p99", "service", "refused")
COLUMNS: Final = ("replica", "pid", "state", "inside", "ms", "restarts", "address")
NODE_COLUMNS: Final = ("replica", "node", "class", "speed", "cores")  # where replicas were placed
BUDGETS: Final = ("budget", "allowed", "spent", "over", "last 10 s", "worst", "peak", "denied")
REQUESTS: Final = ("requests", "failed", "partial", "turned away", "reissues", "late", "retries")
LOST: Final = ("utility lost, in whole answers", "by stop rules", "by failures")

SHOWN_DECISIONS: Final = 3
SILENT_S: Final = 30.0  # after which an autopilot, which tells of itself every 2 s, is taken to be away

Rows = list[tuple[str, ...]]


def stage_rows(figures: dict[str, Any]) -> Rows:
    """Rows of the stages, in the service's order; rates and latencies are of the last 10 s."""
    return [
        (
            f"{name} (first item)" if stage.get("streams") else name,
            f"{sum(not each['ejected'] for each in stage['replicas'])}/{len(stage['replicas'])}",
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


def where_in_force(status: Mapping[str, Any]) -> list[str]:
    """Lines that say which gateway has which plan, where they differ, and which gateways do not answer.

    Args:
        status: combined status of all gateways.
    """
    lines = status.get("gateways") or []
    silent = [f"no answer from gateway {each}" for each in status.get("gateways_silent") or ()]
    if len({line.get("plan") for line in lines}) < 2:  # noqa: PLR2004 - they agree
        return silent
    return [
        f"gateway {line['gateway'] or '-'} has plan {line.get('plan') or 'none'}, "
        f"revision {line.get('revision')} by {line.get('by') or 'its start'}"
        for line in lines
    ] + silent


def line_rows(lines: dict[str, Any]) -> Rows:
    """Rows of the lines of requests, one for each kind, with how many of those started had to wait."""
    return [
        (
            kind,
            str(line["running"]),
            str(line["waiting"]),
            f"{line['waited']}/{line['started']}",
            number(line["wait_p50_ms"]),
            number(line["wait_p99_ms"]),
            number(line["service_ms"]),
            str(line["turned_away"]),
        )
        for kind, line in lines["kinds"].items()
    ]


def replica_rows(replicas: Sequence[dict[str, Any]], state_of: Callable[[dict[str, Any]], str]) -> Rows:
    """Rows of the replicas.

    Args:
        replicas: replicas, as `kwiken status --json` has them.
    """
    return [
        (
            # The name of a replica elsewhere repeats its address, which has a column of its own.
            each["stage"] if each["pid"] is None else each["replica"],
            number(each["pid"]),
            state_of(each),
            number(each["inflight"]),
            number(each["latency_ms"]),
            number(each["restarts"]),
            each["address"].removeprefix("http://"),
        )
        for each in replicas
    ]


def node_rows(replicas: Sequence[dict[str, Any]]) -> Rows:
    """Rows of the nodes that replicas were placed on; empty where none was placed."""
    return [
        (each["replica"], each["node"], each["class"], f"{each['speed']:.3g}", f"{each['cores']:.3g}")
        for each in replicas
        if each.get("node") is not None
    ]


def budget_rows(figures: dict[str, Any]) -> Rows:
    """Rows of the budgets: reissues, and the other levers if the plan has them or anything was spent."""
    rows: Rows = []
    for name, key, places in (
        ("reissue", "ledger", 2),
        ("catch-up", "catch_up", 2),
        ("utility", "utility", 3),
    ):
        account = figures[key]
        if key != "ledger" and not (account["fraction"] or account["spent"]):
            continue
        worst = account.get("worst_10s")
        rows.append(
            (
                name,
                f"{account['fraction']:.{places}%}",
                f"{account['horizon_share']:.{places}%}",
                _horizon(account["horizon_s"]),
                f"{account['share_10s']:.{places}%}",
                "-" if worst is None else f"{worst:.{places}%}",
                f"{account['peak']:.{places}%}" if account["peak"] else "-",
                str(account["denied"]),
            )
        )
    return rows


def _horizon(seconds: float) -> str:
    """Length of the horizon in the largest unit that fits."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def request_row(figures: dict[str, Any]) -> tuple[str, ...]:
    """Row of the requests so far, and of the copies and retries that they had."""
    names = ("requests", "failed", "partial", "shed", "reissues", "late_reissues", "retries")
    return tuple(str(figures[name]) for name in names)


def wrapped(line: str) -> list[str]:
    """A sentence as lines of at most `WIDTH` characters."""
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) or [""]


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
    """A figure in three digits, or all that stand before the point; a dash for None."""
    if value is None or not isinstance(value, float):
        return "-" if value is None else str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"  # noqa: PLR2004 - four digits
