"""Overload of a gateway's event loop: requests are turned away early and at little cost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
import uvloop

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.decisions.admission import Admission, Limits
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.observation.loop_lag import (
    EVERY_S,
    TIMERS_IN_MEDIAN,
    LagWatch,
    loop_iterations_of,
)
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.runtime.waiting import PATIENCE_S, until

LIMITS = Limits(requests=100, always=10, deadline_ms=10_000)
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


def standing(line_s: float, *, inside: int = 0, since: int = 0) -> Admission:
    """Admission with a number of requests inside when the wait was measured, and arrivals since."""
    admission = Admission(LIMITS)
    admission.inside = inside
    admission.note_line(line_s)
    admission.inside += since
    return admission


@pytest.mark.parametrize(
    ("line_s", "calm", "low", "normal", "high"),
    [
        (0.0, True, True, True, True),
        (0.49, True, True, True, True),
        (0.51, False, True, True, True),
        (0.71, False, False, True, True),
        (0.86, False, False, False, True),
        (1.01, False, False, False, False),
        (60.0, False, False, False, False),
    ],
)
def test_a_tenth_of_the_deadline_in_line_is_full_load(
    line_s: float, calm: bool, low: bool, normal: bool, high: bool
) -> None:
    """However few requests are inside: those that wait are not counted yet."""
    assert (standing(line_s).spare_capacity(0.0) > 0) is calm
    assert [standing(line_s).enter(0.0, priority) is None for priority in (-1, 0, 1)] == [low, normal, high]


def test_requests_with_less_time_left_are_shed_earlier() -> None:
    assert standing(0.3).enter(0.0, 0, 10.0) is None
    assert standing(0.3).enter(0.0, 0, 2.0) is not None
    assert standing(0.04).enter(0.0, 0, 0.01) is None  # so short a wait counts for nothing


def test_requests_admitted_since_the_measurement_lengthen_the_expected_wait() -> None:
    assert standing(0.5, inside=50).line_s == 0.5
    assert standing(0.5, inside=50, since=40).line_s == pytest.approx(0.5 * 100 / 60)
    assert standing(0.5, inside=50, since=-40).line_s == 0.5  # until it is measured again
    assert standing(0.6, inside=50).enter(0.0, 0) is None
    assert standing(0.6, inside=40, since=30).enter(0.0, 0) is not None
    assert standing(0.004, inside=1, since=60).enter(0.0, 0) is None  # a burst for an idle loop


def test_requests_shed_before_their_body_are_counted_as_shed() -> None:
    admission = standing(2.0)
    assert admission.refusal(0.0, 0) == LIMITS.least_retry_after_s
    assert (admission.shed.total(), admission.inside) == (1, 0)


async def work(text: str) -> str:
    return text


def test_turns_of_a_request() -> None:
    one = Stage(name="a", handler=work)
    rest = [Stage(name="b", after=("a",)), Stage(name="c", after=("a",)), Stage(name="d", after=("b", "c"))]
    assert loop_iterations_of(Service.of("x", [one])) == 2 + 3
    assert loop_iterations_of(Service.of("x", [one, *rest])) == 2 + 3 * 3


def lag_of(loop: Callable[[], asyncio.AbstractEventLoop], step_s: float, *, steps: int) -> list[float]:
    """Lags reported while steps of the given seconds follow each other, and well after."""
    told: list[float] = []

    async def main() -> None:
        watch = LagWatch(told.append)
        watch.start()
        for _ in range(steps):
            time.sleep(step_s)  # noqa: ASYNC251 - that is what it is about
            await asyncio.sleep(0)
        await asyncio.sleep((2 * TIMERS_IN_MEDIAN + 2) * EVERY_S)
        watch.stop()
        count = len(told)
        await asyncio.sleep(3 * EVERY_S)
        assert len(told) == count

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    return told


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_is_always_late_is_found_out_and_forgiven(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    told = lag_of(loop, 0.06, steps=12)
    assert max(told) >= 0.03
    assert told[-1] < max(told) / 2


@pytest.mark.parametrize("loop", LOOPS)
def test_one_long_step_is_no_line(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    assert max(lag_of(loop, 0.5, steps=1)) < 0.25


async def burn(text: str) -> str:
    """Blocks the loop, like a service that computes within its gateway."""
    end = time.perf_counter() + 0.004
    while time.perf_counter() < end:
        pass
    return text


def gateway_of(handler: Callable[..., Awaitable[Any]], limits: Limits) -> tuple[Gateway, Executor]:
    service = Service.of("busy", [Stage(name="a", handler=handler)])
    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
        limits=limits,
    )
    return Gateway(service, executor, GatewaySettings(remote=False)), executor


@pytest.mark.parametrize("loop", LOOPS)
def test_a_saturated_gateway_turns_requests_away_and_recovers(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Sixty clients without pauses between requests ask for more than the loop can do in the time allowed."""

    async def main() -> None:
        gateway, executor = gateway_of(burn, Limits(deadline_ms=1000))
        await gateway.start()
        statuses: list[int] = []
        stop = asyncio.Event()

        async def caller(session: aiohttp.ClientSession) -> None:
            while not stop.is_set():
                async with session.post(gateway.url + "/v1/request", json="x") as answer:
                    statuses.append(answer.status)
                    assert answer.status == 200 or int(answer.headers["Retry-After"]) >= 1

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            callers = [asyncio.create_task(caller(session)) for _ in range(60)]
            await until(lambda: {*statuses} >= {200, 503} or any(each.done() for each in callers))
            stop.set()
            await asyncio.gather(*callers)
            assert set(statuses) == {200, 503}
            assert executor.status()["shed"] == statuses.count(503)
            async with asyncio.timeout(PATIENCE_S):
                while True:  # the median of the last timers falls with the load
                    async with session.post(gateway.url + "/v1/request", json="x") as answer:
                        if answer.status == 200:
                            break
                    await asyncio.sleep(EVERY_S)
        await gateway.stop(grace_s=0.0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_a_shed_request_need_not_send_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    note_line, line_s = Executor.note_line, 60.0  # whatever the gateway measures
    monkeypatch.setattr(Executor, "note_line", lambda executor, _: note_line(executor, line_s))
    gateway, executor = gateway_of(work, Limits())
    await gateway.start()
    try:
        executor.note_line(60.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
        writer.write(
            b"POST /v1/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n"
        )
        async with asyncio.timeout(PATIENCE_S):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: " in head
        writer.close()
        assert executor.status()["shed"] == 1
        assert executor.status()["line_ms"] == 60_000.0
        line_s = 0.0
        executor.note_line(line_s)
        executor.turn_away()
    finally:
        await gateway.stop(grace_s=0.0)


async def test_a_caller_of_the_library_gets_the_overload_error() -> None:
    _, executor = gateway_of(work, Limits())
    executor.note_line(60.0)
    with pytest.raises(OverloadError, match="try again later"):
        executor.turn_away(deadline_ms=100.0)
    with pytest.raises(OverloadError, match="try again later"):
        await executor.run("x")
    assert msgspec.to_builtins(executor.status())["shed"] == 2
