"""Replicas behind bad paths and changing names: requests end in time, and a good replica beside them serves.

The paths are proxies in user space, because a network namespace that delays and drops packets needs `netem`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from kwiken.base.errors import KwikenError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import MAX_REPLICAS, Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control import name_resolver
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.name_resolver import Endpoint, NameResolver
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from tests.support.faults.rough_path import Path, rough_path
from tests.support.runtime.waiting import PATIENCE_S, until

DEADLINE_MS: Final = 1000.0
NAME: Final = "many.example"
ASK_SYSTEM: Final = socket.getaddrinfo
PATHS: Final = {
    "slow": Path(delay_ms=100.0, jitter_ms=100.0),
    "losing": Path(delay_ms=5.0, jitter_ms=20.0, cut=0.1),
    "stalling": Path(stall=0.1),
    "dripping": Path(delay_ms=1.0, drips=True),
    "dead": Path(cut=1.0),
    "black hole": Path(stall=1.0),
}


async def say(word: str) -> str:
    return word


SERVICE: Final = Service.of("paths", [Stage(name="say", handler=say, idempotent=True, replicas=2)])


@contextlib.asynccontextmanager
async def replica_of(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """A good replica; gives its port."""
    server = ReplicaServer(SERVICE, "say", host=host, port=port)
    await server.start()
    try:
        yield int(server.url.rpartition(":")[2])
    finally:
        await server.stop(grace_s=0.0, linger_s=0.0)


@contextlib.asynccontextmanager
async def calling(*ports: int) -> AsyncIterator[Executor]:
    replicas = [Replica(f"r{each}", "here", f"http://127.0.0.1:{each}") for each in ports]
    async with FrameTransport(SERVICE) as transport:
        yield Executor(
            SERVICE, transport, replicas={"say": replicas}, clock=SystemClock(), rng=random.Random(1)
        )


async def failures(executor: Executor, count: int, at_once: int = 4) -> list[str]:
    """Errors of requests, each of which must end within some seconds of its deadline."""
    errors: list[str] = []
    left = iter(range(count))

    async def some() -> None:
        for number in left:
            try:
                async with asyncio.timeout(10 * DEADLINE_MS / 1000):
                    answer = await executor.run(f"w{number}", deadline_ms=DEADLINE_MS)
            except KwikenError as error:
                errors.append(str(error))
            else:
                assert answer.value == f"w{number}"

    await asyncio.gather(*(some() for _ in range(at_once)))
    return errors


@pytest.mark.parametrize("kind", PATHS)
async def test_a_replica_behind_a_bad_path_is_known_soon(kind: str) -> None:
    """Beside a good replica few requests fail; alone, each ends by its deadline, and all serve once it is good."""
    before = asyncio.all_tasks()
    async with replica_of() as port, rough_path("127.0.0.1", port, PATHS[kind]) as rough:
        async with replica_of() as good, calling(rough, good) as executor:
            first = await failures(executor, 60)
            later = await failures(executor, 60)
        assert len(first) <= 15, first
        assert len(later) <= 6, later
        async with calling(rough) as executor:
            await failures(executor, 8)
    await until(lambda: asyncio.all_tasks() <= before)


class Names:
    """Stands for the resolver of the system: what a name means changes from one look-up to the next."""

    def __init__(self, *answers: Callable[[], list[str]]) -> None:
        self._answers = list(answers)
        self.asked = 0
        self.at_once = self.most_at_once = 0

    def __call__(self, host: str, port: int, **hints: Any) -> list[Any]:
        if host != NAME:
            return list(ASK_SYSTEM(host, port, **hints))
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            addresses = self._answers[(self.asked - 1) % len(self._answers)]()
        finally:
            self.at_once -= 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]


def resolver(executor: Executor, port: int) -> NameResolver:
    control = Control(SERVICE, executor, Exchange.of_one(executor, "a"), token=None, status=dict)
    return NameResolver({"say": [Endpoint(NAME, port, "http")]}, control)


def not_found() -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def test_a_name_that_means_another_machine_at_each_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls go on, whichever of two machines it means, and whether the look-up fails."""
    names = Names(lambda: ["127.0.0.1"], not_found, lambda: ["127.0.0.2"], lambda: ["127.0.0.1", "127.0.0.2"])
    monkeypatch.setattr(socket, "getaddrinfo", names)
    async with (
        replica_of() as port,
        replica_of("127.0.0.2", port),
        calling() as executor,
    ):
        found = resolver(executor, port)
        await found.resolve()
        stop = asyncio.Event()

        async def changes() -> None:
            while not stop.is_set():
                await found.resolve()
                await asyncio.sleep(0.01)

        changing = asyncio.create_task(changes())
        errors = await failures(executor, 300)
        stop.set()
        await changing
    assert errors == []
    assert names.asked > 3  # several look-ups while requests ran


async def test_a_name_with_countless_addresses_has_bounded_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"10.{a}.{b}.{c}" for a in range(2) for b in range(200) for c in range(250)]
    monkeypatch.setattr(socket, "getaddrinfo", Names(lambda: many, lambda: many[:1]))
    async with calling() as executor:
        found = resolver(executor, 9)
        assert len((await found.resolve())["say"]) == MAX_REPLICAS
        assert len((await found.resolve())["say"]) == 1
        (left,) = executor.status()["stages"]["say"]["replicas"]
        assert left["id"] == f"{many[0]}:9"


async def test_a_look_up_without_an_end_keeps_the_known_and_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()

    def hangs() -> list[str]:
        over.wait(30.0)
        return ["127.0.0.2"]

    names = Names(lambda: ["127.0.0.1"], hangs)
    monkeypatch.setattr(socket, "getaddrinfo", names)
    async with replica_of() as port, calling() as executor:
        found = resolver(executor, port)
        await found.resolve()
        monkeypatch.setattr(name_resolver, "LOOKUP_S", 0.05)
        for _ in range(6):
            (replica,) = (await found.resolve())["say"]
            assert replica.node == "127.0.0.1"
        assert (names.asked, names.most_at_once) == (2, 1)
        assert await failures(executor, 10) == []
        over.set()
        began = time.monotonic()
        while (await found.resolve())["say"][0].node != "127.0.0.2":
            assert time.monotonic() - began < PATIENCE_S
