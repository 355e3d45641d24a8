"""Cluster on nodes that this machine emulates: places of replicas, their changes under traffic, a killed node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import aiohttp
import pytest

from kwiken.base.errors import DefinitionError
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.layout import EmulatedNode, Layout, ReplicaPlace
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.node_classes.node_limits import NodeLimits
from tests.support.runtime.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
TARGET = "tests.support.services.http:service"
BESIDE = {"middle": 1, "last": 1}  # replicas of the stages that are not on nodes
NODES = {
    "quick": EmulatedNode(node_class="large", cores=1),
    "slow": EmulatedNode(node_class="small", cores=1, speed=0.6),
}


@contextlib.asynccontextmanager
async def placed(**replicas: list[ReplicaPlace]) -> AsyncIterator[Cluster]:
    async with NodeLimits() as limits:
        for name, node in NODES.items():
            limits.add_node(name, node.limit)
        layout = Layout(limits=limits, nodes=NODES, replicas=replicas)
        settings = ClusterSettings(grace_s=2.0)
        async with Cluster(TARGET, settings, replicas=BESIDE, layout=layout) as cluster:
            yield cluster


def on_nodes(cluster: Cluster) -> dict[str, str]:
    return {name: place.node for name, (_, place) in cluster.places.items()}


class Traffic:
    """Requests one after another while something happens; counts their outcomes."""

    def __init__(self, cluster: Cluster) -> None:
        self._url = cluster.gateway_url + "/v1/request"
        self.statuses: Counter[int] = Counter()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.post(self._url, json={"text": "hi"}) as response:
                    self.statuses[response.status] += 1
                    await response.read()

    async def some_more(self) -> None:
        goal = self.statuses.total() + 5
        await until(lambda: self.statuses.total() >= goal)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


async def test_replicas_start_on_their_nodes_and_change_there_without_a_failed_request() -> None:
    async with placed(first=[ReplicaPlace("quick", 0.5), ReplicaPlace("slow", 0.5)]) as cluster:
        assert on_nodes(cluster) == {"first-0": "quick", "first-1": "slow"}
        status = await cluster.status()
        assert {one["node"] for one in status["replicas"]} == {"quick", "slow", None}
        assert [(one["node"], one["node_class"], one["speed"]) for one in status["nodes"]] == [
            ("quick", "large", 1.0),
            ("slow", "small", 0.6),
        ]
        told = status["runtime"]["stages"]["first"]["replicas"]
        assert {one["id"]: one["node"] for one in told} == on_nodes(cluster)
        async with Traffic(cluster) as traffic:
            await traffic.some_more()
            assert await cluster.add_replica("first", ReplicaPlace("slow", 0.4)) == "first-2"
            await cluster.resize_replica("first-0", 0.8)
            await cluster.remove_replica("first-1")
            await traffic.some_more()
            await cluster.resize_replica("first-1", 0.8)  # it is gone: nothing happens
            await cluster.remove_replica("first-1")
        assert set(traffic.statuses) == {200}
        assert on_nodes(cluster) == {"first-0": "quick", "first-2": "slow"}
        assert cluster.places["first-0"][1].cores == 0.8
        cluster.note_action("first-0 was resized")
        assert (await cluster.status())["actions"] == ["first-0 was resized"]


async def test_a_node_is_lost_when_its_replicas_were_killed_and_cannot_be_started_again() -> None:
    places = [ReplicaPlace("quick", 0.5), ReplicaPlace("slow", 0.3), ReplicaPlace("slow", 0.3)]
    async with placed(first=places) as cluster:
        pids = {name: pid for name, (pid, _) in zip(cluster.places, cluster.replicas["first"], strict=True)}
        os.kill(pids["first-1"], signal.SIGKILL)
        await until(lambda: len(cluster.replicas["first"]) == 2)
        assert cluster.lost_nodes == []  # its other replica runs
        os.kill(pids["first-2"], signal.SIGKILL)
        await until(
            lambda: not {pids["first-1"], pids["first-2"]} & {pid for pid, _ in cluster.replicas["first"]}
        )
        assert cluster.lost_nodes == []  # both are started again where they were
        await until(lambda: len(cluster.replicas["first"]) == 3)
        assert cluster.layout is not None
        limits = cluster.layout.limits
        await limits.remove_node("slow")
        await until(lambda: cluster.lost_nodes == ["slow"])
        limits.add_node("slow", NODES["slow"].limit)
        assert sorted(await cluster.drop_node("slow")) == ["first-1", "first-2"]
        assert cluster.lost_nodes == []
        assert on_nodes(cluster) == {"first-0": "quick"}
        await cluster.add_replica("first", ReplicaPlace("slow", 0.3))  # the node is back
        assert len(cluster.replicas["first"]) == 2


async def test_a_replica_that_ends_by_itself_does_not_make_a_lost_node() -> None:
    async with placed(first=[ReplicaPlace("slow", 0.5)]) as cluster:
        ((pid, _),) = cluster.replicas["first"]
        os.kill(pid, signal.SIGTERM)
        await until(lambda: not cluster.replicas["first"])
        assert cluster.lost_nodes == []
        await until(lambda: cluster.replicas["first"])  # restarted in its place
        assert on_nodes(cluster) == {"first-0": "slow"}


async def test_places_for_an_unknown_stage_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="nope"):
        async with placed(nope=[ReplicaPlace("quick", 0.5)]):
            pass
