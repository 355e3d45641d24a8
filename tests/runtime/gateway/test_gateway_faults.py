"""Faulty replicas behind a gateway, in every way that a socket allows."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import aiohttp
import pytest

from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from tests.support.peers.misbehaving import Reaction, misbehaving, saying, silence
from tests.support.services.http import service

BUSY = b"kw-busy-ms: 1\r\nkw-inflight: 1\r\nkw-latency-ms: 1\r\n"
FAULTS = {
    "hangs up at once": saying(b""),
    "cut in the head": saying(b"HTTP/1.1 200 OK\r\nContent-"),
    "cut in the answer": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n" + BUSY + b"\r\n\xa2hi"),
    "talks nonsense": saying(b"\x16\x03\x01\x02\x00"),
    "is another server": saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    "is full": saying(b"HTTP/1.1 503 Full\r\nContent-Length: 0\r\nkw-refused: 1\r\n\r\n"),
    "never answers": silence,
}


@contextlib.asynccontextmanager
async def gateway_with(bad: Replica) -> AsyncIterator[Gateway]:
    """A gateway with good replicas of every stage and a bad one of `middle`."""
    async with contextlib.AsyncExitStack() as stack:
        replicas: dict[str, list[Replica]] = {"middle": [bad]}
        for name in ("first", "middle", "middle", "last"):
            server = ReplicaServer(service, name)
            await server.start()
            stack.push_async_callback(server.stop, grace_s=0.0)
            those = replicas.setdefault(name, [])
            those.append(Replica(id=f"{name}-{len(those)}", node="here", address=server.url))
        transport = await stack.enter_async_context(FrameTransport(service, raw=True))
        executor = Executor(service, transport, replicas=replicas, clock=SystemClock(), rng=random.Random(3))
        gateway = Gateway(service, executor)
        await gateway.start()
        stack.push_async_callback(gateway.stop, grace_s=0.0)
        yield gateway


@pytest.mark.parametrize("name", FAULTS)
async def test_no_request_is_lost_that_another_replica_can_serve(name: str) -> None:
    reaction: Reaction = FAULTS[name]
    async with (
        misbehaving(reaction) as bad,
        gateway_with(bad) as gateway,
        aiohttp.ClientSession() as session,
    ):

        async def ask(number: int) -> tuple[int, bytes]:
            body = {"text": f"n{number}"}
            async with session.post(gateway.url + "/v1/request", json=body) as answer:
                return answer.status, await answer.read()

        for turn in range(10):
            answers = await asyncio.gather(*(ask(4 * turn + n) for n in range(4)))
            for n, (status, text) in enumerate(answers):
                number = 4 * turn + n
                assert (status, text) == (200, b'{"answer":{"said":"N%d0 N%d1"}}' % (number, number))
