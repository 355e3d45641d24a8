"""Exported bootstrap in a running Envoy: copies are sent when due, and never make a call worse."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from kwiken.export.plans.envoy import envoy_bootstrap
from kwiken.model.plan.plan import Plan
from kwiken.model.service.stage import Reissue
from tests.support.otel.exports import plan_with, stage
from tests.support.peers.envoys import pointed_at, running
from tests.support.runtime.waiting import until

FOREVER_S = 60.0
ANSWER_S = 20.0


class Servers:
    """Two replicas of one stage; `script` says what the n-th attempt that reaches either of them gets."""

    def __init__(self, script: Callable[[int], Awaitable[web.Response]]) -> None:
        self.script = script
        self.attempts: list[int] = []  # the port that each attempt came to
        self.cancelled = 0
        self.ports: list[int] = []

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[list[int]]:
        runners = [await self._start() for _ in range(2)]
        self.ports = [runner.addresses[0][1] for runner in runners]
        try:
            yield self.ports
        finally:
            for runner in runners:
                await runner.cleanup()

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    async def _answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        self.attempts.append(request.transport.get_extra_info("sockname")[1])
        try:
            return await self.script(len(self.attempts))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def plan_of(reissue: Reissue) -> Plan:
    return plan_with({"lookup": stage("GET /lookup", reissue)})


@contextlib.asynccontextmanager
async def proxied(
    reissue: Reissue,
    script: Callable[[int], Awaitable[web.Response]],
    folder: Path,
    *,
    change: Callable[[Any], None] = lambda _: None,
) -> AsyncIterator[tuple[Callable[[str], Coroutine[Any, Any, tuple[int, str]]], Servers]]:
    servers = Servers(script)
    async with contextlib.AsyncExitStack() as stack:
        ports = await stack.enter_async_context(servers.serving())
        bootstrap = pointed_at(envoy_bootstrap(plan_of(reissue), {}).text, ports)
        change(bootstrap)
        url = await stack.enter_async_context(running(bootstrap, folder))
        session = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ANSWER_S))
        )

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"{url}{path}", headers={"host": "cart"}) as reply:
                return reply.status, await reply.text()

        yield get, servers


async def forever() -> web.Response:
    await asyncio.sleep(FOREVER_S)
    return web.Response(text="late")


async def test_a_copy_answers_from_the_other_replica_and_the_loser_is_cancelled(tmp_path: Path) -> None:
    async def script(attempt: int) -> web.Response:
        return await forever() if attempt == 1 else web.Response(text="copy")

    async with proxied(Reissue(after_ms=30, fraction=0.5), script, tmp_path) as (get, servers):
        assert await get("/lookup") == (200, "copy")
        assert sorted(servers.attempts) == sorted(servers.ports)
        await until(lambda: servers.cancelled)


async def test_a_fast_call_gets_no_copy(tmp_path: Path) -> None:
    async def script(attempt: int) -> web.Response:
        return web.Response(text=str(attempt))

    async with proxied(Reissue(after_ms=5000, fraction=0.5), script, tmp_path) as (get, servers):
        for number in range(1, 6):
            assert await get("/lookup") == (200, str(number))
        assert len(servers.attempts) == 5


async def test_what_the_plan_does_not_reissue_gets_no_copy(tmp_path: Path) -> None:
    async def script(attempt: int) -> web.Response:
        await asyncio.sleep(0.3)
        return web.Response(text="slow")

    async with proxied(Reissue(after_ms=10, fraction=0.5), script, tmp_path) as (get, servers):
        assert await get("/other") == (200, "slow")
        assert len(servers.attempts) == 1


async def test_a_failing_copy_does_not_beat_the_call_that_runs(tmp_path: Path) -> None:
    failed = asyncio.Event()

    async def script(attempt: int) -> web.Response:
        if attempt > 1:
            failed.set()
            return web.Response(status=500, text="failed")
        await failed.wait()
        await asyncio.sleep(0.2)  # the copy's answer is long at the proxy
        return web.Response(text="primary")

    async with proxied(Reissue(after_ms=30, fraction=0.5), script, tmp_path) as (get, servers):
        assert await get("/lookup") == (200, "primary")
        assert len(servers.attempts) == 2


async def test_no_more_copies_than_the_plan_has(tmp_path: Path) -> None:
    async def script(attempt: int) -> web.Response:
        await asyncio.sleep(0.5)
        return web.Response(text="slow")

    async with proxied(Reissue(after_ms=10, copies=1, fraction=0.5), script, tmp_path) as (get, servers):
        assert await get("/lookup") == (200, "slow")
        assert len(servers.attempts) == 2


async def test_the_budget_bounds_the_copies_that_run_at_once(tmp_path: Path) -> None:
    """All slow: 40 calls in flight, 10% of them times the slack of 1.5 may have a copy running."""
    gate = asyncio.Event()

    async def script(attempt: int) -> web.Response:
        await gate.wait()
        return web.Response(text="slow")

    async with proxied(Reissue(after_ms=20, fraction=0.1), script, tmp_path) as (get, servers):
        calls = [asyncio.create_task(get("/lookup")) for _ in range(40)]
        await until(lambda: len(servers.attempts) > 40)
        await asyncio.sleep(0.5)
        # Envoy counts the copies among the calls in flight, and each of its threads looks for itself.
        assert 41 <= len(servers.attempts) <= 52, "without a budget there are 80"
        gate.set()
        assert await asyncio.gather(*calls) == [(200, "slow")] * 40


async def test_an_interval_would_let_more_copies_run_at_once(tmp_path: Path) -> None:
    """Why no `budget_interval` is written: calls that are over then count, but copies only while they run."""
    gate = asyncio.Event()
    gate.set()

    async def script(attempt: int) -> web.Response:
        await gate.wait()
        return web.Response(text="answer")

    def over_an_hour(bootstrap: Any) -> None:
        (cluster,) = bootstrap["static_resources"]["clusters"]
        cluster["circuit_breakers"]["thresholds"][0]["retry_budget"]["budget_interval"] = "3600s"

    policy = Reissue(after_ms=200, fraction=0.1)
    async with proxied(policy, script, tmp_path, change=over_an_hour) as (get, servers):
        for _ in range(200):
            await get("/lookup")
        before = len(servers.attempts)
        gate.clear()
        calls = [asyncio.create_task(get("/lookup")) for _ in range(40)]
        # 15% of the 240 calls of the interval are 36 copies at once; 15% of those in flight are 12 at most.
        await until(lambda: len(servers.attempts) >= before + 40 + 25)
        gate.set()
        await asyncio.gather(*calls)


async def test_copies_are_sent_for_the_share_of_calls_with_that_probability(tmp_path: Path) -> None:
    """Each call is its own first attempt or not: those with a copy are about 30% of 100 (6 deviations: 28)."""

    async def script(attempt: int) -> web.Response:
        await asyncio.sleep(0.05)
        return web.Response(text="slow")

    policy = Reissue(after_ms=5, probability=0.3, fraction=0.5)
    async with proxied(policy, script, tmp_path) as (get, servers):
        for _ in range(100):
            assert (await get("/lookup"))[0] == 200
        assert 2 <= len(servers.attempts) - 100 <= 58
