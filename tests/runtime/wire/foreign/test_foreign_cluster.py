"""Foreign services, each a process of its own, behind a gateway: requests, faults, plans and the command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.gateway.bench_foreign import foreign_services
from kwiken.apps.demo.faults.disturb import DisturbedStage
from kwiken.cli.live.status import _show, describe, unnoted
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.stage import Reissue
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.state.files import StateFiles
from tests.support.peers.foreign_grpc import grpc_server
from tests.support.project.commands import refused, run

TARGET = "benchmarks.gateway.foreign_shop:shop"
STAGES = ("price", "stock", "offer")


def plan_for() -> Plan:
    """A plan that copies calls of both foreign stages early."""
    return Plan(
        version=1,
        service="shop",
        created="2026-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=0.5),
        cost=Costs(model="calls", stages=dict.fromkeys(STAGES, 1 / 3)),
        stages={name: StagePlan(reissue=Reissue(after_ms=40.0, fraction=0.5)) for name in STAGES[:2]},
    )


@contextlib.asynccontextmanager
async def shop(state: Path) -> AsyncIterator[tuple[Cluster, dict[str, DisturbedStage]]]:
    async with foreign_services() as services, Cluster(TARGET, state=state) as cluster:
        yield cluster, services


@contextlib.contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def asked(session: aiohttp.ClientSession, url: str, sku: str) -> tuple[int, Any]:
    async with session.post(f"{url}/v1/request", json={"sku": sku}) as response:
        return response.status, await response.json()


async def test_foreign_services_are_stages_like_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shop(tmp_path) as (cluster, services), aiohttp.ClientSession() as session:
        assert list(cluster.replicas) == ["offer"]
        assert await asked(session, cluster.gateway_url, "tea") == (
            200,
            {"answer": "12 pieces of tea, 350 cents each"},
        )
        status, answer = await asked(session, cluster.gateway_url, "gold")
        assert status == 500
        assert "HTTP 404" in answer["error"] or "NOT_FOUND" in answer["error"]
        await cluster.put_plan(plan_for())
        for stage in ("price", "stock"):
            for pid in services[stage].target.pids:  # the first call goes to one of them
                with paused(pid):
                    for _ in range(4):
                        assert (await asked(session, cluster.gateway_url, "tea"))[0] == 200
            seen = (await cluster.status())["runtime"]["stages"][stage]
            assert seen["foreign"]
            # A retry where this machine is too busy for copies.
            assert seen["reissues"] + seen["retries"] > 0
        os.kill(services["stock"].target.pids[1], signal.SIGKILL)
        for _ in range(8):
            assert (await asked(session, cluster.gateway_url, "tea"))[0] == 200
        files = StateFiles(tmp_path, "shop")
        state = files.read()
        assert state is not None
        shown = await asyncio.to_thread(describe, files, state)
        foreign = [each for each in shown["replicas"] if each["pid"] is None]
        assert sorted(each["stage"] for each in foreign) == ["price", "price", "stock", "stock"]
        assert unnoted(shown) == 0
        _show(shown)
        said = capsys.readouterr()
        assert all(each["address"].rpartition(":")[2] in said.out for each in foreign)
        assert "offer-0" in said.out


def test_there_are_no_replicas_of_a_foreign_service_to_start() -> None:
    refused(run("stage", TARGET, "--stage", "price"), "stage 'price': a foreign service serves it")
    refused(run("up", TARGET, "--replicas", "price=2"), "stage 'price': a foreign service serves it")
    refused(run("serve", TARGET), r"no replica of offer; give --replica")
    refused(run("serve", TARGET, "--local", "--replica", "offer=127.0.0.1:9"), "no replica to name")


@pytest.mark.parametrize(
    ("method", "message"),
    [("Got", "stage 'stock': remote: service 'shop.Inventory' has no method 'Got'; it has: Get, List, Put")],
)
async def test_a_mistake_is_one_line_at_the_start_of_the_gateway(
    tmp_path: Path, method: str, message: str
) -> None:
    async with grpc_server() as replica:
        (tmp_path / "wrong.py").write_text(
            "from kwiken import Service, Stage\n"
            f"url = 'grpc://{replica.id}/shop.Inventory/{method}'\n"
            "service = Service.of('shop', [Stage(name='stock', remote=url)])\n"
        )
        command = [sys.executable, "-m", "kwiken", "serve", "wrong:service", "--local", "--port", "0"]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kwiken: {message}")
