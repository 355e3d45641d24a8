"""Upkeep of a real cluster on played nodes: a killed node's work goes elsewhere, and best-effort work runs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.workloads.workload import Spread
from kwiken.runtime.cluster.cluster import Cluster
from tests.support.allocation.upheld import RATES, SPEEDS, Upheld
from tests.support.runtime.clusters import cluster as cluster_of, profile, requested
from tests.support.runtime.leftovers import (
    NAP,
    groups_of,
    naps_of_this_process,
    new_mark,
    processes_with,
)
from tests.support.runtime.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")


class Running(Upheld):
    def __init__(self, count: int, *, rate: float = 80.0, batch: bool = False) -> None:
        nodes = cluster_of({"quick": count}, cores=1)
        of: dict[str, Any] = {"service": "echo", "stage": "first", "spread": Spread.NODE}
        requests = [requested(rate, profile(RATES, SPEEDS, name="front"), nodes, **of)]
        if batch:
            nap = profile({0.5: 1.0}, SPEEDS, name="nap")
            requests.append(requested(None, nap, nodes, command=NAP, max_replicas=1))
        super().__init__(requests, nodes, cores=1)


def nodes_of(cluster: Cluster) -> set[str]:
    return {place.node for stage, place in cluster.places.values() if stage == "first"}


async def lose(running: Running, cluster: Cluster) -> None:
    """Lose the nodes that have replicas, together."""
    await asyncio.gather(*(running.limits.remove_node(node) for node in nodes_of(cluster)))


async def test_a_killed_process_is_started_again_where_it_was() -> None:
    running = Running(2)
    async with running.up() as cluster:
        (home,) = nodes_of(cluster)
        ((killed, _),) = cluster.replicas["first"]
        os.kill(killed, signal.SIGKILL)
        await until(lambda: [pid for pid, _ in cluster.replicas["first"] if pid != killed])
        assert nodes_of(cluster) == {home}
        assert running.said == []
        assert running.adaptation.lost == []


async def test_nodes_that_come_back_together_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwiken.upkeep.upkeep.NODE_LOST_S", 2.0)
    running = Running(3, rate=160.0)
    async with running.up() as cluster:
        lost = nodes_of(cluster)
        await lose(running, cluster)
        await until(lambda: sorted(running.adaptation.lost) == sorted(lost))
        await until(lambda: running.adaptation.lost == [] and len(cluster.replicas["first"]) >= 2)


async def test_a_step_that_fails_is_logged_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kwiken.upkeep.upkeep.FAILED_S", 0.05)
    running = Running(2)
    async with running.up() as cluster:
        with monkeypatch.context() as patch:
            patch.setattr(Adaptation, "nodes_lost", lambda *_: 1 / 0)
            await lose(running, cluster)
            await until(lambda: "a step of the upkeep failed: ZeroDivisionError" in caplog.text)
        assert (await cluster.status())["ready"]


async def test_the_replicas_of_a_killed_node_are_started_on_another_one() -> None:
    running = Running(2)
    async with running.up() as cluster:
        (lost,) = nodes_of(cluster)
        await lose(running, cluster)
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
        await lose(running, cluster)
        await until(lambda: running.said)
        assert running.said == [
            "front: no room: node quick-0 was lost; 80/s are needed, and the nodes can give 0/s"
        ]
        assert cluster.replicas["first"] == []


async def test_best_effort_commands_run_on_their_nodes_and_end_with_the_cluster() -> None:
    running = Running(1, rate=40.0, batch=True)
    async with running.up():
        await until(naps_of_this_process)  # between two programs a process has no command line
        naps = naps_of_this_process()
        assert len(naps) == 1
    await until(lambda: naps[0] is None or not naps[0].alive)


async def test_nodes_that_are_lost_together_are_given_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwiken.upkeep.upkeep.CHECK_S", 2.0)  # no look falls between the two losses
    running = Running(3, rate=160.0)
    async with running.up() as cluster:
        lost = nodes_of(cluster)
        assert len(lost) == 2
        await lose(running, cluster)
        await until(lambda: nodes_of(cluster) and not lost & nodes_of(cluster))
        assert sorted(running.adaptation.lost) == sorted(lost)
        start, shortage = running.said
        assert f"nodes {', '.join(sorted(lost))} were lost" in start
        assert shortage.startswith("front: no room: ")


async def test_a_replica_that_hangs_is_no_lost_node() -> None:
    running = Running(2)
    async with running.up(unresponsive_s=0.8) as cluster:
        ((pid, _),) = cluster.replicas["first"]
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: [other for other, _ in cluster.replicas["first"] if other != pid])
        assert running.said == []
        assert running.adaptation.lost == []


async def test_a_gateway_that_is_replaced_keeps_nobody_from_moving_replicas() -> None:
    running = Running(2)
    async with running.up() as cluster:
        (gateway,) = cluster.gateway_pids
        os.kill(gateway, signal.SIGKILL)
        (lost,) = nodes_of(cluster)
        await lose(running, cluster)
        await until(lambda: nodes_of(cluster) and lost not in nodes_of(cluster))
        await until(lambda: cluster.gateway_pids not in ([], [gateway]))


async def test_a_start_on_a_node_that_is_gone_fails_and_is_remembered() -> None:
    running = Running(2)
    async with running.up() as cluster:
        (home,) = nodes_of(cluster)
        (other,) = set(running.nodes) - {home}
        await running.limits.remove_node(other)
        await running.limits.remove_node(home)
        await until(lambda: len(running.said) == 2)
        start, failure = running.said
        assert start.startswith(f"front: start front-1 on {other}")
        assert failure == f"front: front-1 could not be started: echo/first-1: no node {other!r}"
        assert running.adaptation.keys["front"] == []  # it is placed anew after a pause
        assert cluster.replicas["first"] == []


async def test_an_interrupt_in_the_middle_of_a_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    name, value = mark = new_mark("KWIKEN_TEST_UPKEEP")
    monkeypatch.setenv(name, value)  # children inherit it
    running = Running(2)
    async with running.up() as cluster:
        assert processes_with(mark)
        await lose(running, cluster)
        await until(lambda: running.said)
        assert cluster.replicas["first"] == []  # the start is under way
    assert processes_with(mark) == []
    assert groups_of(os.getpid()) == []
