"""Benchmark of memory: a gateway, a replica, and many replicas together, as Linux counts it.

RSS counts the pages that a process holds, those it shares too. PSS counts a shared page in parts, one for
each process that holds it, so the sum over processes is what they take together.
"""

from __future__ import annotations

import re
from pathlib import Path

import uvloop

from benchmarks.harness import Row
from kwiken.runtime.cluster.cluster import Cluster

MAX_REPLICA_MB = 20.0
PAGE = re.compile(r"^(Rss|Pss):\s+(\d+) kB$", re.MULTILINE)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    if not Path("/proc/self/smaps_rollup").exists():
        return [Row(name="memory of processes, which Linux alone tells", ours=1, unit="skipped")]
    measured: list[Row] = uvloop.run(_measure("few" if quick else "many"))
    return measured


async def _measure(service: str) -> list[Row]:
    async with Cluster(f"benchmarks.command.echo_services:{service}") as cluster:
        gateways = [_held_mb(pid) for pid in cluster.gateway_pids]
        replicas = [_held_mb(pid) for pid, _ in cluster.replicas["echo"]]
    rss = sorted(held["Rss"] for held in replicas)
    return [
        Row(name="gateway: RSS", ours=gateways[0]["Rss"], unit="MB"),
        Row(
            name="replica: RSS",
            ours=rss[len(rss) // 2],
            unit="MB",
            target=MAX_REPLICA_MB,
            spread=(rss[0], rss[-1]),
        ),
        Row(name=f"{len(replicas)} replicas: PSS", ours=sum(held["Pss"] for held in replicas), unit="MB"),
    ]


def _held_mb(pid: int) -> dict[str, float]:
    """RSS and PSS of a process, MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return {name: int(size) * 1024 / 1e6 for name, size in PAGE.findall(text)}
