"""Host names of replicas: looked up repeatedly; a failed lookup never ends the gateway."""

from __future__ import annotations

import random

import pytest

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.name_resolver import Endpoint, NameResolver
from kwiken.runtime.wire.transport.local import LocalTransport


async def say(word: str) -> str:
    return word


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "no-such-host.invalid"])
async def test_an_invalid_host_name_is_reported_and_gives_no_replica(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service.of("named", [Stage(name="s", handler=say)])
    executor = Executor(
        service, LocalTransport(service), replicas={"s": []}, clock=SystemClock(), rng=random.Random(1)
    )
    control = Control(service, executor, token=None, status=dict)
    await NameResolver({"s": [Endpoint(host, 9001), Endpoint("127.0.0.1", 9002, "grpc")]}, control).resolve()
    assert f"cannot look up {host}" in caplog.text
    (replica,) = executor.status()["stages"]["s"]["replicas"]
    assert replica["id"] == "127.0.0.1:9002"
    ((known,),) = control._replicas.values()
    assert known.address == "grpc://127.0.0.1:9002"
