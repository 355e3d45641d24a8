"""Streams of model servers in processes of their own, which are killed and frozen, through a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import aiohttp
import msgspec
import pytest

from kwiken.model.service.remote import HttpCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.local import LocalTransport
from tests.support.runtime.server_processes import DIRECT, ROOT, free_port
from tests.support.runtime.waiting import soon

WORDS: Final = [f"word{number}" for number in range(40)]
HEADERS: Final = {"Content-Type": "application/json", "kw-deadline-ms": "60000"}


class Ask(msgspec.Struct):
    prompt: str


class Choice(msgspec.Struct):
    text: str


class Completion(msgspec.Struct):
    choices: list[Choice]


async def complete(ask: Ask) -> AsyncIterator[Completion]:
    """What the model server streams; it is called by `remote`."""
    raise NotImplementedError


def service_of(**settings: Any) -> Service:
    remote = HttpCall(
        "http://model.example:8000/v1/completions",
        body={"prompt": "{request.prompt}", "stream": True},
        stream="events",
    )
    stage = Stage(name="complete", handler=complete, remote=remote, idempotent=True, **settings)
    return Service.of("writer", [stage])


def is_up(port: int) -> bool:
    with contextlib.suppress(OSError):
        return bool(DIRECT.open(f"http://127.0.0.1:{port}/healthz", timeout=5).status == 200)
    return False


@contextlib.contextmanager
def model_server(*options: str) -> Iterator[tuple[int, Replica]]:
    """Process id and address of a running model server."""
    port = free_port()
    command = [sys.executable, str(ROOT / "examples/foreign/words.py"), "--port", str(port), *options]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        soon(lambda: is_up(port))
        yield process.pid, Replica(f"words-{port}", f"node-{port}", f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def asking(service: Service, *replicas: Replica) -> AsyncIterator[tuple[Any, Executor]]:
    """A way to post a prompt to a gateway, and the gateway's executor."""
    async with contextlib.AsyncExitStack() as ends:
        transport = await ends.enter_async_context(ForeignTransport(service, LocalTransport(service)))
        session = await ends.enter_async_context(aiohttp.ClientSession())
        executor = Executor(
            service,
            transport,
            replicas={"complete": list(replicas)},
            clock=SystemClock(),
            rng=random.Random(1),
            control_share=0.0,
        )
        gateway = Gateway(service, executor, GatewaySettings(token="a-token-of-tests"))
        await gateway.start()
        ends.push_async_callback(gateway.stop, grace_s=0.0)

        def post(words: list[str]) -> Any:
            body = {"prompt": " ".join(words)}
            return session.post(gateway.url + "/v1/request", json=body, headers=HEADERS)

        yield post, executor


def text_of(line: Any) -> str:
    return str(line["item"]["choices"][0]["text"])


@pytest.mark.slow
async def test_no_item_is_lost_doubled_or_reordered_by_kills_and_freezes() -> None:
    """There are three cases: 1. nothing happens; 2. a freeze between items; 3. a kill between items."""
    for case, between_ms in ((1, "1"), (2, "20"), (3, "60000")):
        with model_server("--first-ms", "5", "--between-ms", between_ms) as (pid, replica):
            async with asking(service_of(timeout_ms=30_000), replica) as (post, executor):
                async with post(WORDS) as response:
                    assert response.status == 200
                    lines = [json.loads(await response.content.readline())]
                    if case == 2:
                        os.kill(pid, signal.SIGSTOP)
                        await asyncio.sleep(0.3)
                        os.kill(pid, signal.SIGCONT)
                    elif case == 3:
                        os.kill(pid, signal.SIGKILL)
                    lines += [json.loads(line) async for line in response.content]
                counts = executor.status()["stages"]["complete"]
        texts = [text_of(line) for line in lines[:-1]]
        if case == 3:
            assert texts == WORDS[:1]
            assert lines[-1]["items"] == 1
            assert "after 1 items" in lines[-1]["error"]
        else:
            assert texts == WORDS
            assert lines[-1] == {"end": {"items": len(WORDS)}}
        assert counts["failed"] == (case == 3)


@pytest.mark.slow
async def test_a_frozen_model_server_loses_the_race_for_the_first_item() -> None:
    reissue = Reissue(after_ms=30.0)
    with model_server("--first-ms", "1", "--between-ms", "1") as (pid, one), model_server() as (_, other):
        async with asking(service_of(timeout_ms=30_000, reissue=reissue), one, other) as (post, executor):
            os.kill(pid, signal.SIGSTOP)
            try:
                for _ in range(4):
                    async with post(WORDS) as response:
                        lines = [json.loads(line) async for line in response.content]
                    assert [text_of(line) for line in lines[:-1]] == WORDS
            finally:
                os.kill(pid, signal.SIGCONT)
            assert executor.status()["stages"]["complete"]["failed"] == 0
