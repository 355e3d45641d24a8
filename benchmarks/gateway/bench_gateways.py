"""Benchmark of several gateways at one port, beside one gateway: throughput with the same replicas.

Gateways help where a processor is free for each. Where gateways, replicas and client share few of them, the
figure shows what the division costs.
"""

from __future__ import annotations

from typing import Final

import uvloop

from benchmarks.gateway.bench_gateway import CALLERS, load
from benchmarks.harness import Row, paired
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings

GATEWAYS: Final = 4
REPLICAS: Final = {"one": 2, "two": 2, "three": 2}


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (2, 0.5) if quick else (9, 2.0)
    measured: list[Row] = uvloop.run(_compare(rounds, seconds))
    return measured


async def _compare(rounds: int, seconds: float) -> list[Row]:
    several = Cluster("benchmarks.gateway.chain:chain", ClusterSettings(gateways=GATEWAYS), replicas=REPLICAS)
    alone = Cluster("benchmarks.gateway.chain:chain", replicas=REPLICAS)
    pairs = []
    async with several, alone:
        for turn in range(rounds + 1):
            figures = [
                seconds / len((await load(cluster.gateway_url, seconds))[0]) * 1e6
                for cluster in (several, alone)
            ]
            if turn:  # the first turn is a warm-up
                pairs.append((figures[0], figures[1]))
    name = f"{GATEWAYS} gateways, {CALLERS} requests at once: time a request, all processes busy"
    return [paired(name, "one gateway", pairs, unit="us")]
