"""Repeated view of a cluster for `kwiken status --watch`: stages, spend by lever, and replicas."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kwiken.cli.shared import note, print_table, say

EVERY_S: Final = 2.0  # interval of the views
KEEP_DEAD_S: Final = 60.0  # how long a process that is gone stays in the table
STAGES: Final = (
    *("stage", "serving", "rate /s", "p50 ms", "p99 ms", "in flight"),
    *("copies", "denied", "spent", "late"),
)
LEVERS: Final = ("lever", "budget", "spent", "last 10 s", "of peak", "left", "denied")
COLUMNS: Final = ("replica", "pid", "state", "in flight", "latency ms", "restarts", "address")
NODE_COLUMNS: Final = ("node", "class", "speed", "cores")  # where replicas were placed
CLEAR: Final = "\x1b[H\x1b[2J"  # to the top of an empty screen

Cluster = dict[str, Any]
Rows = list[tuple[str, ...]]


class SeenReplicas:
    """Replicas of a cluster over time: one that is gone stays for a while, as dead.

    Args:
        clock: monotonic clock, seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[
            tuple[str, int], tuple[float, dict[str, Any]]
        ] = {}  # last moment at which each lived

    def update(self, replicas: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Present replicas, and those that were gone for less than `KEEP_DEAD_S`, by name.

        Args:
            replicas: replicas of the cluster, as `kwiken status --json` has them.
        """
        now = self._clock()
        present = {(each["replica"], each["pid"]): each for each in replicas}
        for key, each in present.items():
            if each["alive"] or key not in self._seen:
                self._seen[key] = (now, each)
        self._seen = {
            key: (at, each)
            for key, (at, each) in self._seen.items()
            if key in present or now - at <= KEEP_DEAD_S
        }
        found = [
            present.get(key, {**each, "alive": False, "inflight": None, "latency_ms": None})
            for key, (_, each) in self._seen.items()
        ]
        return sorted(found, key=lambda each: (each["stage"], each["replica"], each["pid"]))


def stage_rows(figures: dict[str, Any]) -> Rows:
    """Rows of the stages, in the service's order; rates and latencies are of the last 10 s.

    Args:
        figures: status of the gateway.
    """
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
            str(stage["late"]["copies"]),
        )
        for name, stage in figures["stages"].items()
    ]


def lever_rows(figures: dict[str, Any]) -> Rows:
    """Rows of the levers, with the account of each.

    Args:
        figures: status of the gateway.
    """
    levers = (("reissue", "ledger"), ("catch-up", "catch_up"), ("partial answers", "utility"))
    return [
        (
            name,
            f"{account['fraction']:.2%}",
            f"{account['horizon_share']:.2%}",
            f"{account['share_10s']:.2%}",
            f"{account['peak']:.2%}",
            number(account["left"]),
            str(account["denied"]),
        )
        for name, key in levers
        for account in (figures[key],)
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


def number(value: float | None) -> str:
    """A figure in three digits; a dash for None."""
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def show(cluster: Cluster, replicas: list[dict[str, Any]], state_of: Callable[[dict[str, Any]], str]) -> None:
    """Print the tables of one cluster.

    Args:
        cluster: cluster, as `kwiken status --json` has it.
        replicas: its replicas, with those that died a short time ago.
        state_of: word for the state of a replica.
    """
    figures = cluster["runtime"]
    if figures is not None:
        recent = figures["recent"]
        say(
            f"{cluster['service']}: {number(recent['rate_per_s'])} requests a second, "
            f"p50 {number(recent['p50_ms'])} ms, p99 {number(recent['p99_ms'])} ms, "
            f"load {figures['load']:.2f}, plan {figures['plan'] or 'none'}"
        )
        print_table("", STAGES, stage_rows(figures), to_stdout=True)
        print_table("", LEVERS, lever_rows(figures), to_stdout=True)
    print_table("", replica_columns(replicas), replica_rows(replicas, state_of), to_stdout=True)


def watch(
    clusters: Callable[[], list[Cluster]],
    state_of: Callable[[dict[str, Any]], str],
    *,
    clear: bool,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Show clusters every `EVERY_S` seconds until none is up.

    Args:
        clusters: describes the clusters at present.
        state_of: word for the state of a replica.
        clear: whether to clear the screen before each view.
        sleep: waits for some seconds.
        clock: monotonic clock, seconds.
    """
    seen: dict[str, SeenReplicas] = {}
    while found := clusters():
        if clear:
            sys.stdout.write(CLEAR)
        for cluster in found:
            replicas = seen.setdefault(cluster["service"], SeenReplicas(clock))
            show(cluster, replicas.update(cluster["replicas"]), state_of)
        sys.stdout.flush()
        sleep(EVERY_S)
    note("kwiken: no service is up any more")
