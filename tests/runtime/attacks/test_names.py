"""Name servers that lie: addresses that change between two look-ups, that are countless, or that never come."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kwiken.model.service.service import Service
from kwiken.model.service.stage import MAX_REPLICAS, Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control import name_resolver
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.name_resolver import Endpoint, NameResolver
from kwiken.runtime.wire.transport.local import LocalTransport
from tests.support.runtime.waiting import PATIENCE_S


async def say(word: str) -> str:
    return word


class Names:
    """A name server with one name.

    Attributes:
        addresses: what it answers; None for no answer until the test ends.
        asked: number of questions.
    """

    def __init__(self) -> None:
        self.addresses: list[str] | None = []
        self.asked = 0
        self.over = threading.Event()
        service = Service.of("named", [Stage(name="s", handler=say)])
        self._executor = Executor(
            service, LocalTransport(service), replicas={"s": []}, clock=SystemClock(), rng=random.Random(1)
        )
        control = Control(
            service, self._executor, Exchange.of_one(self._executor, "a"), token=None, status=dict
        )
        self.resolver = NameResolver({"s": [Endpoint("many.example", 9001)]}, control)

    def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked += 1
        addresses = self.addresses
        if addresses is None:
            self.over.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    @property
    def replicas(self) -> list[str]:
        return [each["id"] for each in self._executor.status()["stages"]["s"]["replicas"]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names()
    monkeypatch.setattr("kwiken.runtime.gateway.control.name_resolver.socket.getaddrinfo", made)
    yield made
    made.over.set()


async def test_addresses_that_change_are_followed(names: Names) -> None:
    for addresses in (["10.0.0.1"], ["10.0.0.2", "10.0.0.1"], ["10.0.0.3"]):
        names.addresses = addresses
        await names.resolver.resolve()
        assert names.replicas == [f"{each}:9001" for each in sorted(addresses)]


async def test_countless_addresses_are_bounded(names: Names) -> None:
    names.addresses = [
        f"10.{each >> 16}.{each >> 8 & 255}.{each & 255}" for each in range(MAX_REPLICAS + 500)
    ]
    await names.resolver.resolve()
    assert len(names.replicas) == MAX_REPLICAS


async def test_a_server_that_never_answers_holds_one_thread_and_known_addresses_stay(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    names.addresses = ["10.0.0.1"]
    await names.resolver.resolve()
    names.addresses = None
    with monkeypatch.context() as patch:
        patch.setattr(name_resolver, "LOOKUP_S", 0.02)
        for _ in range(10):
            await names.resolver.resolve()
    assert names.asked == 2
    assert names.replicas == ["10.0.0.1:9001"]
    names.over.set()
    names.addresses = ["10.0.0.2"]
    async with asyncio.timeout(PATIENCE_S):
        while names.replicas != ["10.0.0.2:9001"]:  # the thread that waited ends first
            await names.resolver.resolve()
