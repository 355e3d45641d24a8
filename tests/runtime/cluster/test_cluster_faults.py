"""Faults of a cluster's real processes while requests run."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.stage import Reissue
from kwiken.runtime.base.errors import RefusedError
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from tests.support.peers.protocols import HTTP, Protocol, call_of
from tests.support.runtime.server_processes import gateway_pid
from tests.support.runtime.waiting import PATIENCE_S, found, until
from tests.support.services.http import Ask, service

TARGET = "tests.support.services.http:service"
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Client:
    """Sends requests to a cluster and counts how they end."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self._session = session
        self.statuses: collections.Counter[int] = collections.Counter()

    async def ask(self, **ask: Any) -> tuple[int, Any]:
        """Status and answer of one request."""
        body = {"text": "hi", **ask}
        async with self._session.post(self.cluster.gateway_url + "/v1/request", json=body) as response:
            self.statuses[response.status] += 1
            return response.status, msgspec.json.decode(await response.read())

    async def during(self, events: Awaitable[None], *, callers: int = 4, **ask: Any) -> None:
        """Keep asking until the events have passed and some more requests have been answered."""
        passed = asyncio.Event()

        async def caller() -> None:
            more = 10
            while not passed.is_set() or more > 0:
                await self.ask(**ask)
                more -= passed.is_set()

        callers_running = [asyncio.create_task(caller()) for _ in range(callers)]
        await events
        passed.set()
        await asyncio.gather(*callers_running)


@pytest.fixture(scope="module", params=[HTTP], ids=str)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    found: Protocol = request.param
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(protocol: Protocol) -> AsyncIterator[Cluster]:
    settings = ClusterSettings(max_inflight=16, grace_s=3.0)
    async with Cluster(TARGET, settings, replicas={"first": 2}) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    await whole(cluster)
    async with aiohttp.ClientSession() as session:
        yield Client(cluster, session)
    await whole(cluster)


async def whole(cluster: Cluster) -> None:
    """Wait until every slot has a process and the gateway knows its address."""
    counts = {"first": 2, "middle": 3, "last": 2}

    def filled() -> bool:
        running = cluster.replicas
        alive = all(Identity.of(pid) for those in running.values() for pid, _ in those)
        return alive and {stage: len(those) for stage, those in running.items()} == counts

    await until(lambda: filled() and gateway_pid(cluster))

    async def known() -> bool:
        with contextlib.suppress(KwikenError):
            stages = (await cluster.status())["runtime"]["stages"]
            shown = {
                stage: sorted(r["address"] for r in figures["replicas"]) for stage, figures in stages.items()
            }
            return shown == {s: sorted(url for _, url in those) for s, those in cluster.replicas.items()}
        return False

    deadline = time.monotonic() + PATIENCE_S
    while not await known():
        assert time.monotonic() < deadline, "the gateway was not told in time"
        await asyncio.sleep(0.05)


def pids(cluster: Cluster, stage: str) -> list[int]:
    return [pid for pid, _ in cluster.replicas[stage]]


async def replicas_of(cluster: Cluster, stage: str) -> dict[str, dict[str, Any]]:
    figures = (await cluster.status())["runtime"]["stages"][stage]["replicas"]
    return {replica["address"]: replica for replica in figures}


async def test_requests_are_served(client: Client) -> None:
    assert await client.ask() == (200, {"answer": {"said": "HI0 HI1"}})


@pytest.mark.parametrize("stage", ["first", "middle", "last"])
async def test_a_killed_replica_loses_no_request_and_is_replaced(
    cluster: Cluster, client: Client, stage: str
) -> None:
    before = pids(cluster, stage)

    async def kill() -> None:
        await asyncio.sleep(0.1)
        os.kill(before[0], signal.SIGKILL)
        await until(
            lambda: len(pids(cluster, stage)) == len(before) and before[0] not in pids(cluster, stage)
        )

    await client.during(kill(), sleep_ms=10)
    assert set(client.statuses) == {200}
    assert set(before[1:]) < set(pids(cluster, stage))


async def test_a_replica_told_to_stop_loses_no_request(cluster: Cluster, client: Client) -> None:
    before = pids(cluster, "middle")

    async def stop() -> None:
        await asyncio.sleep(0.1)
        os.kill(before[1], signal.SIGTERM)
        await until(lambda: before[1] not in pids(cluster, "middle") and len(pids(cluster, "middle")) == 3)

    await client.during(stop(), sleep_ms=10)
    assert set(client.statuses) == {200}


async def test_a_paused_replica_loses_no_request_and_is_avoided(cluster: Cluster, client: Client) -> None:
    paused, address = cluster.replicas["middle"][0]

    async def pause() -> None:
        await asyncio.sleep(0.1)
        os.kill(paused, signal.SIGSTOP)
        await asyncio.sleep(1.5)
        stuck = (await replicas_of(cluster, "middle"))[address]
        others = [s for a, s in (await replicas_of(cluster, "middle")).items() if a != address]
        assert stuck["inflight"] <= 8, (stuck, others)  # of hundreds of requests meanwhile

    try:
        await client.during(pause(), sleep_ms=10)
    finally:
        os.kill(paused, signal.SIGCONT)
    assert set(client.statuses) == {200}
    assert client.statuses[200] >= 40  # ten of each client come after the pause


async def test_a_full_replica_sends_calls_elsewhere(
    cluster: Cluster, client: Client, protocol: Protocol
) -> None:
    """One replica is filled to its limit from outside, and refuses every call of the gateway."""
    _, address = cluster.replicas["middle"][0]
    hold = call_of("middle", Ask("x", sleep_ms=3000))
    async with protocol.transport(service) as transport:
        fill = protocol.replica_at(address)
        holders = [asyncio.create_task(transport.call(fill, hold)) for _ in range(17)]
        done, _ = await asyncio.wait(holders, return_when=asyncio.FIRST_COMPLETED)
        assert [type(task.exception()) for task in done] == [RefusedError]  # it is full
        await client.during(asyncio.sleep(0.3), sleep_ms=1)
        for task in holders:
            task.cancel()
        await asyncio.gather(*holders, return_exceptions=True)
    assert set(client.statuses) == {200}
    assert client.statuses[200] >= 40


async def test_a_request_that_kills_its_replicas_is_given_up_and_the_stage_recovers(
    cluster: Cluster, client: Client
) -> None:
    """Its attempts are limited, but two shards with a retry each can still crash all three replicas."""
    before = pids(cluster, "middle")

    async def crash() -> None:
        await asyncio.sleep(0.1)
        status, _ = await client.ask(odd_exit=True)
        assert status in {502, 503}
        await until(lambda: set(before) - set(pids(cluster, "middle")))
        await whole(cluster)
        await asyncio.sleep(0.2)  # what failed meanwhile has been counted
        client.statuses.clear()

    await client.during(crash(), callers=2)
    assert set(client.statuses) == {200}


async def test_a_cancelled_caller_cancels_work_on_the_replicas(client: Client, tmp_path: Path) -> None:
    task = asyncio.create_task(client.ask(sleep_ms=20_000, log=str(tmp_path)))
    await until(lambda: len(found(tmp_path, "started")) >= 2)
    task.cancel()
    await until(lambda: len(found(tmp_path, "cancelled")) == len(found(tmp_path, "started")))
    assert not found(tmp_path, "ended")


async def test_a_copy_that_wins_cancels_the_call_on_the_other_replica(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    """The stage's own policy sends copies after 60 ms; the paused replica's calls lose, and must not run on."""
    paused = pids(cluster, "middle")[0]
    os.kill(paused, signal.SIGSTOP)
    try:
        answers = await asyncio.gather(*(client.ask(sleep_ms=200, log=str(tmp_path)) for _ in range(8)))
        stages = (await cluster.status())["runtime"]["stages"]
    finally:
        os.kill(paused, signal.SIGCONT)
    assert {status for status, _ in answers} == {200}
    assert stages["middle"]["reissues"] + stages["middle"]["retries"] > 0
    await asyncio.sleep(0.5)
    assert not [name for name in found(tmp_path, "ended") if f".{paused}." in name]


async def test_a_killed_gateway_comes_back_with_its_plan(cluster: Cluster, client: Client) -> None:
    plan = Plan(
        version=1,
        service="echo",
        created="2024-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=0.1),
        cost=Costs(model="calls", stages={"first": 0.25, "middle": 0.5, "last": 0.25}),
        stages={"middle": StagePlan(reissue=Reissue(after_ms=50.0, fraction=0.1))},
    )
    await cluster.put_plan(plan)
    with pytest.raises(InputError, match="other"):
        await cluster.put_plan(msgspec.structs.replace(plan, service="other"))
    url, pid = cluster.gateway_url, gateway_pid(cluster)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: gateway_pid(cluster) not in {None, pid})
    await whole(cluster)
    assert cluster.gateway_url == url
    assert (await client.ask())[0] == 200
    assert (await cluster.status())["runtime"]["plan"] == plan.digest
    await cluster.put_plan(None)
    assert (await cluster.status())["runtime"]["plan"] is None
