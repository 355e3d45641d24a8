"""Several gateways at one port: connections are divided, a plan reaches all, budgets add up, one may die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from grpc import aio

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.plan.accounts import FLOOR_BURST
from kwiken.model.plan.ledger_terms import BURST_REQUESTS
from kwiken.model.plan.plan import Budgets
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from tests.support.peers.grpc_messages import Request, ask_of
from tests.support.runtime.server_processes import free_port
from tests.support.runtime.waiting import PATIENCE_S, until
from tests.support.services.http import plan_for

TARGET = "tests.support.services.http:service"
GATEWAYS = 3
ONE_EACH = {"middle": 1, "last": 1}  # and one of the first stage, as the service has it

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def grpc_port() -> int:
    return free_port()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(grpc_port: int) -> AsyncIterator[Cluster]:
    settings = ClusterSettings(gateways=GATEWAYS, grace_s=1.0, grpc_port=grpc_port)
    async with Cluster(TARGET, settings) as cluster:
        yield cluster


async def statuses(cluster: Cluster) -> list[dict[str, Any]]:
    """Status of each gateway, by the address that the supervisor uses."""
    found = []
    headers = {"Authorization": f"Bearer {cluster.token}"}
    async with aiohttp.ClientSession() as session:
        for gateway in (await cluster.status())["gateways"]:
            async with session.get(gateway["url"] + "/v1/status?alone=1", headers=headers) as response:
                found.append(msgspec.json.decode(await response.read()))
    return found


async def everywhere(cluster: Cluster, digest: str | None) -> None:
    """Wait until every gateway has a plan, and replicas of every stage."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            each = await statuses(cluster)
            served = all(stage["replicas"] for status in each for stage in status["stages"].values())
            if served and {status["plan"] for status in each} == {digest}:
                return
            await asyncio.sleep(0.05)


async def ask(cluster: Cluster, times: int, **more: float | str) -> None:
    """Requests on a connection each, so that the system divides them."""
    for _ in range(times):
        async with (
            aiohttp.ClientSession() as session,
            session.post(cluster.gateway_url + "/v1/request", json={"text": "hi", **more}) as response,
        ):
            assert response.status == 200


async def ask_over_grpc(port: int, times: int) -> None:
    """Requests over gRPC on a connection each."""
    for _ in range(times):
        options = (("grpc.use_local_subchannel_pool", 1),)  # else channels to one address share a connection
        async with aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            answer = await ask_of(channel)(Request(json='{"text": "hi"}'), timeout=10.0)
        assert answer.utility == 1.0


async def test_connections_are_divided_and_figures_add_up(cluster: Cluster) -> None:
    before = (await cluster.status())["runtime"]["requests"]
    await ask(cluster, 60)
    each = await statuses(cluster)
    assert len(each) == GATEWAYS
    assert sum(status["requests"] > 0 for status in each) >= 2
    assert (await cluster.status())["runtime"]["requests"] - before == 60


async def test_connections_over_grpc_are_divided_too(cluster: Cluster, grpc_port: int) -> None:
    before = [status["requests"] for status in await statuses(cluster)]
    await ask_over_grpc(grpc_port, 40)
    after = [status["requests"] for status in await statuses(cluster)]
    gained = [now - then for now, then in zip(after, before, strict=True)]
    assert sum(gained) == 40
    assert sum(gain > 0 for gain in gained) >= 2


async def test_a_plan_put_to_one_gateway_reaches_all(cluster: Cluster) -> None:
    headers = {"Authorization": f"Bearer {cluster.token}"}
    plan = plan_for()
    for body, digest in ((plan.to_json().encode(), plan.digest), (b"null", None)):
        async with (
            aiohttp.ClientSession() as session,
            session.put(cluster.gateway_url + "/v1/plan", data=body, headers=headers) as response,
        ):
            assert response.status == 200
        await everywhere(cluster, digest)


async def test_a_gateway_that_dies_comes_back_with_plan_and_replicas(
    cluster: Cluster, grpc_port: int
) -> None:
    plan = plan_for(after_ms=40.0)
    await cluster.put_plan(plan)
    killed = cluster.gateway_pids[0]
    os.kill(killed, signal.SIGKILL)
    await until(
        lambda: len(cluster.gateway_pids) == GATEWAYS and killed not in cluster.gateway_pids, within_s=30
    )
    await everywhere(cluster, plan.digest)
    await ask(cluster, 20)
    await ask_over_grpc(grpc_port, 20)
    await cluster.put_plan(None)


async def test_the_budgets_of_all_gateways_add_up_to_the_plans(cluster: Cluster) -> None:
    """Every call of a stage would be copied at once; without the floor the budgets allow a few."""
    plan = plan_for(after_ms=0.0)
    plan = msgspec.structs.replace(plan, ledger=msgspec.structs.replace(plan.ledger, floor_per_s=0.0))
    await cluster.put_plan(plan)
    before = (await cluster.status())["runtime"]["ledger"]
    await asyncio.gather(*(ask(cluster, 60, sleep_ms=2.0) for _ in range(6)))
    ledgers = [status["ledger"] for status in await statuses(cluster)]
    total = (await cluster.status())["runtime"]["ledger"]
    await cluster.put_plan(None)
    assert total["denied"] > before["denied"]
    assert total["work"] - before["work"] == pytest.approx(360, abs=1)
    assert total["part"] == pytest.approx(1.0)
    assert all(ledger["part"] == pytest.approx(1 / GATEWAYS) for ledger in ledgers)
    # One burst, which no request has earned yet, is divided among all.
    assert total["spent"] <= plan.budgets.reissue * (total["work"] + BURST_REQUESTS) + 1e-6


@pytest.mark.slow
async def test_three_gateways_spend_one_budget_by_the_handlers_own_counts_and_a_killed_one_no_more(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Every call would be copied; meanwhile a gateway is killed, and comes back."""
    plan = msgspec.structs.replace(plan_for(after_ms=1.0), budgets=Budgets(reissue=0.01))
    await cluster.put_plan(plan)
    await everywhere(cluster, plan.digest)
    began, killed = time.monotonic(), cluster.gateway_pids[1]
    folders = [tmp_path / str(number) for number in range(600)]

    async def caller(own: list[Path]) -> None:
        for folder in own:
            folder.mkdir()
            with contextlib.suppress(aiohttp.ClientError):  # of the killed gateway
                await ask(cluster, 1, sleep_ms=30.0, log=str(folder))

    async def kill() -> None:
        await until(folders[200].exists)
        os.kill(killed, signal.SIGKILL)

    await asyncio.gather(kill(), *(caller(folders[each::6]) for each in range(6)))
    took_s = time.monotonic() - began
    await cluster.put_plan(None)
    calls = [len(list(folder.glob("*.started"))) for folder in folders]  # a copy runs in another process
    copies = sum(max(0, count - 2) for count in calls)
    cost = plan.cost.stages["middle"] / 2
    budget = plan.budgets.reissue * (len(folders) + BURST_REQUESTS) / cost
    floor = plan.ledger.floor_per_s * took_s + FLOOR_BURST
    assert killed not in cluster.gateway_pids
    assert FLOOR_BURST < copies <= budget + floor


@pytest.mark.parametrize("gateways", [0, 65])
async def test_a_number_out_of_range_is_refused(gateways: int) -> None:
    with pytest.raises(InputError, match="number of gateways: must be from 1 to 64"):
        Cluster(TARGET, ClusterSettings(gateways=gateways))


async def test_a_port_of_another_cluster_is_not_shared(cluster: Cluster, grpc_port: int) -> None:
    port = int(cluster.gateway_url.rpartition(":")[2])
    for http_port, shared_port in ((port, None), (0, grpc_port)):
        settings = ClusterSettings(gateways=2, grpc_port=shared_port)
        with pytest.raises(KwikenError, match=r"gateway: .*: the port is in use"):
            async with Cluster(TARGET, settings, port=http_port, replicas=ONE_EACH):
                pass


async def test_any_free_port_for_grpc_is_the_same_for_all_gateways(
    capfd: pytest.CaptureFixture[str],
) -> None:
    settings = ClusterSettings(gateways=2, grpc_port=0, grace_s=1.0)
    async with Cluster(TARGET, settings, replicas=ONE_EACH):
        told = re.findall(r"requests over gRPC at grpc://127\.0\.0\.1:(\d+)", capfd.readouterr().err)
    assert len(told) == 2
    assert told[0] == told[1] != "0"
