"""Streams of replicas in processes of their own, which are killed and frozen before and between items."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import pytest

from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from tests.support.runtime.server_processes import address_of, running
from tests.support.runtime.streaming import Script, resuming, service
from tests.support.runtime.waiting import found, until

TARGET: Final = "tests.support.runtime.streaming:service"
REPLICAS: Final = ("begin", "count", "count", "count", "count")
FROZEN_S: Final = 0.3
MINUTE: Final = {"kw-deadline-ms": "60000"}


@contextlib.asynccontextmanager
async def gateway_before_processes(
    service: Service = service, target: str = TARGET
) -> AsyncIterator[tuple[Gateway, Executor, aiohttp.ClientSession]]:
    async with contextlib.AsyncExitStack() as ends:
        processes = [
            ends.enter_context(running("stage", target, "--stage", name, "--port", "0")) for name in REPLICAS
        ]
        replicas: dict[str, list[Replica]] = {}
        for number, (name, process) in enumerate(zip(REPLICAS, processes, strict=True)):
            replica = Replica(f"{name}-{number}", f"node-{number}", address_of(process))
            replicas.setdefault(name, []).append(replica)
        transport = await ends.enter_async_context(FrameTransport(service, raw=True))
        session = await ends.enter_async_context(aiohttp.ClientSession())
        executor = Executor(
            service,
            transport,
            replicas=replicas,
            clock=SystemClock(),
            rng=random.Random(1),
            control_share=0.0,
        )
        gateway = Gateway(service, executor, GatewaySettings(token="a-token-of-tests"))
        await gateway.start()
        ends.push_async_callback(gateway.stop, grace_s=0.0)
        yield gateway, executor, session


def folder_of(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


@pytest.mark.slow
async def test_no_item_is_lost_doubled_or_reordered_by_kills_and_freezes(tmp_path: Path) -> None:
    """There are four cases: a freeze and a kill, each before the first item and between items."""
    async with gateway_before_processes() as (gateway, executor, session):

        def post(script: Script) -> Any:
            headers = {"Content-Type": "application/json", **MINUTE}
            body = msgspec.json.encode(script)
            return session.post(gateway.url + "/v1/request", data=body, headers=headers)

        async def lines(response: Any) -> list[Any]:
            return [json.loads(line) async for line in response.content]

        # 1. A freeze between items: the rest follows when it ends.
        async with post(Script(200, gap_ms=2)) as response:
            first = json.loads(await response.content.readline())["item"]
            os.kill(first["by"], signal.SIGSTOP)
            try:
                await asyncio.sleep(FROZEN_S)
            finally:
                os.kill(first["by"], signal.SIGCONT)
            rest = await lines(response)
        assert [first["number"], *(line["item"]["number"] for line in rest[:-1])] == list(range(200))
        assert rest[-1] == {"end": {"items": 200}}

        # 2. A freeze before the first item: a copy, or the repeated call, gives all items.
        log = folder_of(tmp_path, "frozen")
        script = Script(3, stall_at=0, log=str(log), only_first=True)
        before = executor.status()["stages"]["count"]["failed"]
        async with post(script) as response:
            await until(lambda: found(log, "started"))
            # Of several calls the first waits: a copy may have begun meanwhile.
            first_call = min(
                found(log, "started"), key=lambda name: int(name.partition("-")[2].split(".")[0])
            )
            frozen = int(first_call.partition("-")[0])
            os.kill(frozen, signal.SIGSTOP)
            try:
                answer = await lines(response)
            finally:
                os.kill(frozen, signal.SIGCONT)
        assert [line["item"]["number"] for line in answer[:-1]] == [0, 1, 2]
        assert frozen not in {line["item"]["by"] for line in answer[:-1]}
        assert executor.status()["stages"]["count"]["failed"] == before

        # 3. A kill before the first item: another replica gives all items.
        log = folder_of(tmp_path, "killed")
        async with post(Script(3, exit_at=0, log=str(log), only_first=True)) as response:
            answer = await lines(response)
        assert [line["item"]["number"] for line in answer[:-1]] == [0, 1, 2]
        assert len(found(log, "started")) >= 2

        # 4. A kill between items: an error ends the stream, and nothing is sent again.
        log = folder_of(tmp_path, "broken")
        async with post(Script(5, exit_at=2, gap_ms=20, log=str(log))) as response:
            answer = await lines(response)
            assert response.status == 200
        assert [line["item"]["number"] for line in answer[:-1]] == list(range(answer[-1]["items"]))
        assert answer[-1]["items"] in {1, 2}, "the last one may not have left the process yet"
        assert "the connection was closed" in answer[-1]["error"]
        assert len(found(log, "started")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_streams_that_go_on_lose_double_and_reorder_no_item_when_replicas_are_killed(seed: int) -> None:
    """Two of four replicas are killed between items, each when a drawn number of items has come."""
    draws, count = random.Random(seed), 300
    async with gateway_before_processes(resuming, f"{TARGET.partition(':')[0]}:resuming") as (
        gateway,
        executor,
        session,
    ):
        stalls = sorted(draws.sample(range(1, count), 2))
        body = msgspec.json.encode(Script(count, stalls=stalls))
        headers = {"Content-Type": "application/json", **MINUTE}
        lines: list[Any] = []
        async with session.post(gateway.url + "/v1/request", data=body, headers=headers) as response:
            async for line in response.content:
                lines.append(json.loads(line))
                if len(lines) in stalls:  # the replica waits after this item
                    os.kill(lines[-1]["item"]["by"], signal.SIGKILL)
        counts = executor.status()["stages"]["count"]
    assert [line["item"]["number"] for line in lines[:-1]] == list(range(count))
    assert lines[-1] == {"end": {"items": count}}
    assert len({line["item"]["by"] for line in lines[:-1]}) == 3
    assert (counts["failed"], counts["retries"]) == (0, 2)
