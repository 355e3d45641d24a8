"""Host names of replicas: looked up repeatedly; a failed lookup never ends the gateway."""

from __future__ import annotations

import random

import pytest

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.name_resolver import Endpoint, NameResolver
from kwiken.runtime.wire.transport.local import LocalTransport


async def say(word: str) -> str:
    return word


async def both(word: str, extra: str | None) -> str:
    return f"{word} {extra}"


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "no-such-host.invalid"])
async def test_an_invalid_host_name_is_reported_and_gives_no_replica(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service.of("named", [Stage(name="s", handler=say)])
    executor = Executor(
        service, LocalTransport(service), replicas={"s": []}, clock=SystemClock(), rng=random.Random(1)
    )
    control = Control(service, executor, Exchange.of_one(executor, "a"), token=None, status=dict)
    names = NameResolver({"s": [Endpoint(host, 9001), Endpoint("127.0.0.1", 9002, "grpc")]}, control)
    for _ in range(3):
        await names.resolve()
    assert caplog.text.count(f"stage 's': cannot look up {host}") == 1
    (replica,) = executor.status()["stages"]["s"]["replicas"]
    assert replica["id"] == "127.0.0.1:9002"
    (known,) = executor.replica_states()["s"]
    assert known.replica.address == "grpc://127.0.0.1:9002"


async def test_a_service_is_ready_without_the_replicas_of_an_optional_stage() -> None:
    stages = [Stage(name="needed", handler=say), Stage(name="extra", handler=say, optional=True)]
    service = Service.of("named", [*stages, Stage(name="join", after=("needed", "extra"), handler=both)])
    executor = Executor(
        service,
        LocalTransport(service),
        replicas={name: [] for name in service.stages},
        clock=SystemClock(),
        rng=random.Random(1),
    )
    control = Control(service, executor, Exchange.of_one(executor, "a"), token=None, status=dict)
    assert control.lacking == ["needed", "join"]
    known = [Endpoint("127.0.0.1", 9002)]
    names = {"needed": known, "extra": [Endpoint("no-such-host.invalid", 1)], "join": known}
    await NameResolver(names, control).resolve()
    assert control.lacking == []
    answer = await executor.run("hello")
    assert (answer.value, answer.partial) == ("hello None", True)
