"""Upkeep of a real cluster on played nodes: a killed node's work goes elsewhere, and best-effort work runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwiken.adaptation import Adaptation
from kwiken.placement import NodeLedger, admit_all, document
from kwiken.placement.schedulers import scheduler
from kwiken.runtime.cluster import Cluster, ClusterSettings, Layout, PlayedNode
from kwiken.runtime.node_classes import NodeLimits
from kwiken.runtime.process_id import Identity
from kwiken.runtime.upkeep import Seating, Upkeep
from kwiken.workloads import Spread
from tests.support.clusters import cluster as cluster_of
from tests.support.clusters import profile, requested
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
TARGET = "tests.support.services_http:service"
RATES: dict[float, float] = {0.5: 50.0, 1: 100.0}
NAP = (sys.executable, "-c", "import time; time.sleep(600)")


class Running:
    def __init__(self, count: int, *, rate: float = 80.0, batch: bool = False) -> None:
        nodes = cluster_of({"quick": count}, cores=1)
        of: dict[str, Any] = {"service": "echo", "stage": "first", "spread": Spread.NODE}
        speeds = {"quick": 1.0}
        requests = [requested(rate, profile(RATES, speeds, name="front"), nodes, **of)]
        if batch:
            nap = profile({0.5: 1.0}, speeds, name="nap")
            requests.append(requested(None, nap, nodes, command=NAP, max_replicas=1))
        admissions = admit_all(requests, NodeLedger(nodes), scheduler("thrifty"))
        placement = document(nodes, admissions, scheduler="thrifty", confidence=0.5)
        self.adaptation = Adaptation(requests, nodes, placement, scheduler("thrifty"))
        self.nodes = {node.name: PlayedNode(node_class="quick", cores=1) for node in nodes.nodes}
        workloads = {one.name: one.workload for one in requests}
        self.seating = Seating(workloads=workloads, nodes=self.nodes)
        self.said: list[str] = []

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator[Cluster]:
        async with NodeLimits() as limits:
            for name, node in self.nodes.items():
                limits.add_node(name, node.limit)
            places = self.seating.replicas("echo", self.adaptation.keys)
            layout = Layout(limits=limits, nodes=self.nodes, replicas=places)
            async with Cluster(TARGET, ClusterSettings(grace_s=1.0), layout=layout) as cluster:
                upkeep = Upkeep(
                    self.adaptation, self.seating, {"echo": cluster}, limits, say=self.said.append
                )
                await upkeep.start_best_effort()
                task = asyncio.create_task(upkeep.run())
                try:
                    yield cluster
                finally:
                    task.cancel()
                    await asyncio.wait([task])
                    assert task.cancelled()


def nodes_of(cluster: Cluster) -> set[str]:
    return {place.node for stage, place in cluster.places.values() if stage == "first"}


def kill(cluster: Cluster) -> None:
    for pid, _ in cluster.replicas["first"]:
        os.kill(pid, signal.SIGKILL)


async def test_the_replicas_of_a_killed_node_are_started_on_another_one() -> None:
    running = Running(2)
    async with running.up() as cluster:
        (lost,) = nodes_of(cluster)
        kill(cluster)
        await until(lambda: nodes_of(cluster) and lost not in nodes_of(cluster))
        await until(lambda: cluster.replicas["first"])
        (start,) = running.said
        assert start.startswith("front: start front-1 on quick-")
        assert f"node {lost} was lost" in start
        status = await cluster.status()
        assert status["actions"] == running.said
        assert running.adaptation.lost == [lost]


async def test_without_another_node_the_shortage_is_said() -> None:
    running = Running(1)
    async with running.up() as cluster:
        kill(cluster)
        await until(lambda: running.said)
        assert running.said == [
            "front: no room: node quick-0 was lost; 80/s are needed, and the nodes can give 0/s"
        ]
        assert cluster.replicas["first"] == []


async def test_best_effort_commands_run_on_their_nodes_and_end_with_the_cluster() -> None:
    running = Running(1, rate=40.0, batch=True)
    async with running.up():
        naps = naps_of_this_process()
        assert len(naps) == 1
    await until(lambda: naps[0] is None or not naps[0].alive)


def naps_of_this_process() -> list[Identity | None]:
    """Children of this process that run the best-effort command."""
    return [Identity.of(int(each.name)) for each in Path("/proc").iterdir() if is_nap(each)]


def is_nap(process: Path) -> bool:
    """Whether a process is the best-effort command, as a child of this process."""
    with contextlib.suppress(OSError):
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and b"time.sleep(600)" in (process / "cmdline").read_bytes()
    return False
