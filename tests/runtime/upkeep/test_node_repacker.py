"""Repacking of a real cluster on emulated nodes: what moves, what the gateways are told, and kills."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kwiken.allocator.adaptation import Adaptation, LiveRepackSettings
from kwiken.allocator.placement import SOURCE_CAUTION, NodeLedger, admit_all, document, request_for
from kwiken.allocator.schedulers import scheduler
from kwiken.allocator.workloads import Spread, Target, Workload
from kwiken.runtime.cluster import Cluster, ClusterSettings, EmulatedNode, Layout
from kwiken.runtime.node_classes import NodeLimits
from kwiken.runtime.upkeep import Assignment, NodeRepacker, Upkeep
from tests.support.runtime.clusters import cluster as cluster_of, profile, requested
from tests.support.runtime.leftovers import NAP, naps_of_this_process
from tests.support.runtime.waiting import until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's"),
    pytest.mark.slow,
]
TARGET = "tests.support.services.http:service"
BESIDE = {"middle": 1, "last": 1}  # replicas of the stages that are not on nodes
RATES: dict[float, float] = {0.5: 50.0, 1: 100.0}
SPEEDS = {"quick": 1.0}
ANSWERED = {200, 503}  # 503 where this machine is so busy that requests are turned away


@pytest.fixture(autouse=True)
def quick_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of half a second, so that a period of some seconds has enough of them."""
    for module in ("allocator.adaptation.live_repacking", "runtime.upkeep.upkeep"):
        monkeypatch.setattr(f"kwiken.{module}.WINDOW_S", 0.5)
    monkeypatch.setattr("kwiken.allocator.adaptation.watch.COOL_DOWN_S", 1.0)
    monkeypatch.setattr("kwiken.runtime.upkeep.node_repacker.MIN_WINDOW_S", 0.1)


class Running:
    """A stage of two replicas and best-effort work on nodes of two cores, repacked every few seconds."""

    def __init__(self, nodes: int, *, dial: float | None = 0.0, naps: int = 2) -> None:
        cluster = cluster_of({"quick": nodes}, cores=2)
        front = Workload(
            name="front",
            target=Target(p99_ms=60_000.0, rate_per_s=150.0),  # kept however busy this machine is
            memory_gb=1.0,
            service="echo",
            stage="first",
            spread=Spread.NODE,
            min_nodes=2,
        )
        requests = [
            request_for(front, profile(RATES, SPEEDS, name="front"), cluster, SOURCE_CAUTION),
            requested(
                *(None, profile({1: 1.0}, SPEEDS, name="nap"), cluster),
                command=NAP,
                max_replicas=naps,
                spread=Spread.NONE,
            ),
        ]
        admissions = admit_all(requests, NodeLedger(cluster), scheduler("thrifty"))
        placement = document(cluster, admissions, scheduler="thrifty", confidence=0.5)
        # Both kinds of work stand apart at first, as after a load that has gone.
        self.adaptation = Adaptation(requests, cluster, placement, scheduler("thrifty"))
        self.nodes = {node.name: EmulatedNode(node_class="quick", cores=2) for node in cluster.nodes}
        workloads = {one.name: one.workload for one in requests}
        self.assignment = Assignment(workloads=workloads, nodes=self.nodes)
        chosen = LiveRepackSettings(every_s=6.0, dial=dial, movable=frozenset(workloads))
        self.repacking = self.adaptation.repacking(chosen, time.monotonic())
        self.said: list[str] = []

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator[Cluster]:
        async with NodeLimits() as limits:
            for name, node in self.nodes.items():
                limits.add_node(name, node.limit)
            places = self.assignment.replicas("echo", self.adaptation.keys)
            layout = Layout(limits=limits, nodes=self.nodes, replicas=places)
            async with Cluster(
                TARGET, ClusterSettings(grace_s=1.0), replicas=BESIDE, layout=layout
            ) as cluster:
                repacker = NodeRepacker(
                    self.repacking,
                    keys=lambda: self.adaptation.keys,
                    nodes=self.nodes,
                    assignment=self.assignment,
                    use=limits,
                    clusters={"echo": cluster},
                    targets_ms=self.adaptation.targets_ms,
                    say=self.said.append,
                )
                upkeep = Upkeep(
                    *(self.adaptation, self.assignment, {"echo": cluster}, limits),
                    say=self.said.append,
                    repacker=repacker,
                )
                await upkeep.start_best_effort()
                task = asyncio.create_task(upkeep.run())
                try:
                    yield cluster
                finally:
                    task.cancel()
                    await asyncio.wait([task])

    def in_use(self) -> set[str]:
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


async def test_a_node_that_uses_little_is_freed_while_requests_are_answered() -> None:
    running = Running(4, naps=3)
    before = running.in_use()
    async with running.up() as cluster, requests_to(cluster) as statuses:
        await until(naps_of_this_process)
        await until(lambda: len(running.in_use()) < len(before), within_s=120.0)
        status = await cluster.status()
        moves = [line for line in status["actions"] if "repack at dial 0 frees" in line]
        assert moves
        assert "of 2 cores" in moves[0]
        await until(lambda: len(statuses) > 20)
    assert set(statuses) <= ANSWERED


async def test_under_kills_nothing_is_lost() -> None:
    running = Running(4, naps=3)
    rng = random.Random(7)
    async with running.up() as cluster, requests_to(cluster) as statuses:
        await until(naps_of_this_process)
        end_s = time.monotonic() + 20.0
        while time.monotonic() < end_s:
            await asyncio.sleep(rng.uniform(0.2, 1.5))
            if pids := [pid for pid, _ in cluster.replicas["first"]]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(pids), signal.SIGKILL)
            assert len(naps_of_this_process()) <= 3  # none runs twice
        wanted = len(running.adaptation.keys["front"])
        assert wanted >= 2
        await until(lambda: len(cluster.replicas["first"]) == len(running.adaptation.keys["front"]))
        places = sorted(place.node for stage, place in cluster.places.values() if stage == "first")
        assert places == sorted(node for _, node, _ in running.adaptation.keys["front"])
        await until(lambda: len(naps_of_this_process()) == 3)
        await until(lambda: statuses[-1:] == [200])


async def test_gateways_are_told_of_nodes_without_headroom_also_after_a_restart() -> None:
    running = Running(4)
    async with running.up() as cluster:

        async def told() -> list[str]:
            headers = {"Authorization": f"Bearer {cluster.token}"}
            url = cluster.gateway_url + "/v1/crowded-nodes"
            async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
                return list(await answer.json())

        assert await told() == []
        cluster.withhold_copies(["quick-1", "quick-0"])
        (gateway,) = cluster.gateway_pids
        await until_told(told, ["quick-0", "quick-1"])
        os.kill(gateway, signal.SIGKILL)
        await until(lambda: cluster.gateway_pids not in ([], [gateway]))
        await until_told(told, ["quick-0", "quick-1"])


async def until_told(told: Any, wanted: list[str]) -> None:
    """Ask until the answer is as wanted."""
    async with asyncio.timeout(30.0):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                if await told() == wanted:
                    return
            await asyncio.sleep(0.05)
