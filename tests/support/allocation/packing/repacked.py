"""A cluster on emulated nodes that is repacked every few seconds, and requests to it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from kwiken.allocator.adaptation.live_repacking import LiveRepacking, LiveRepackSettings
from kwiken.allocator.placement.headroom import SOURCE_CAUTION
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.workloads.workload import Spread, Target, Workload
from kwiken.runtime.cluster.cluster import Cluster
from tests.support.allocation.upheld import RATES, SPEEDS, Upheld
from tests.support.runtime.clusters import cluster as cluster_of, profile, requested
from tests.support.runtime.leftovers import NAP

FRONT = Workload(
    name="front",
    target=Target(p99_ms=60_000.0, rate_per_s=150.0),  # kept however busy this machine is
    memory_gb=1.0,
    service="echo",
    stage="first",
    spread=Spread.NODE,
    min_nodes=2,
)


def shorten_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of half a second, so that a period of some seconds has enough of them."""
    for module in ("allocator.adaptation.live_repacking", "upkeep.upkeep"):
        monkeypatch.setattr(f"kwiken.{module}.WINDOW_S", 0.5)
    monkeypatch.setattr("kwiken.allocator.adaptation.watch.COOL_DOWN_S", 1.0)
    monkeypatch.setattr("kwiken.upkeep.node_repacker.MIN_WINDOW_S", 0.1)


class Running(Upheld):
    """A stage and best-effort work on nodes of two cores, repacked every few seconds.

    Args:
        nodes: number of nodes.
        stage: the stage on nodes, which is to have two replicas.
        rates: requests a second of one replica, by its cores.
        dial: dial of the packing; None to follow late requests.
        naps: most replicas of the best-effort work.
        command: command of the best-effort work.
        speed: speed of a node's cores, as a share of this machine's.
    """

    def __init__(
        self,
        nodes: int,
        stage: Workload = FRONT,
        *,
        rates: Mapping[float, float] = RATES,
        dial: float | None = 0.0,
        naps: int = 2,
        command: tuple[str, ...] = NAP,
        speed: float = 1.0,
    ) -> None:
        cluster = cluster_of({"quick": nodes}, cores=2)
        requests = [
            request_for(stage, profile(rates, SPEEDS, name=stage.name), cluster, SOURCE_CAUTION),
            requested(
                *(None, profile({1: 1.0}, SPEEDS, name="nap"), cluster),
                command=command,
                max_replicas=naps,
                spread=Spread.NONE,
            ),
        ]
        # Both kinds of work stand apart at first, as after a load that has gone.
        super().__init__(requests, cluster, cores=2, service=stage.service, speed=speed)
        chosen = LiveRepackSettings(every_s=6.0, dial=dial, movable=frozenset(self.workloads))
        self.repacking = self.adaptation.repacking(chosen, time.monotonic())

    def packer(self) -> LiveRepacking:
        """What repacks the nodes."""
        return self.repacking

    def in_use(self) -> set[str]:
        """Names of the nodes with a replica."""
        return {node for places in self.adaptation.keys.values() for _, node, _ in places}


@contextlib.asynccontextmanager
async def requests_to(cluster: Cluster) -> AsyncIterator[list[int]]:
    """Send one request after the other meanwhile; yields their statuses."""
    found: list[int] = []

    async def send() -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.post(cluster.gateway_url + "/v1/request", json={"text": "a"}) as answer:
                    await answer.read()
                    found.append(answer.status)
                await asyncio.sleep(0.02)

    task = asyncio.create_task(send())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await task
