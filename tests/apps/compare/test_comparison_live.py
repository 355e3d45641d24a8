"""A comparison at a real gateway: all arms get requests, and what was in force before is so at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kwiken.apps.compare.run import run_comparison
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.client import ControlClient
from kwiken.runtime.gateway.control.steering import AutopilotNote
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas

TOKEN = "a-token-of-tests"


def plan_of(after_ms: float, budget: float = 0.1) -> Plan:
    return Plan(
        version=1,
        service="shop",
        created="2024-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=budget),
        cost=Costs(model="calls", stages={"stock": 1.0}),
        stages={"stock": StagePlan(reissue=Reissue(after_ms=after_ms, fraction=budget))},
    )


BEFORE, TRIED = plan_of(70.0), plan_of(20.0)


@contextlib.asynccontextmanager
async def shop_under_load() -> AsyncIterator[str]:
    """A gateway with some requests at any time; yields its address."""
    service = Service("shop")

    @service.stage(replicas=4, idempotent=True)
    async def stock(item: str) -> str:
        await asyncio.sleep(0.002)
        return item

    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
    )
    gateway = Gateway(service, executor, GatewaySettings(remote=False, token=TOKEN))
    await gateway.start()

    async def ask(session: aiohttp.ClientSession) -> None:
        while True:
            async with session.post(f"{gateway.url}/v1/request", json="tea") as answer:
                await answer.read()
            await asyncio.sleep(0.02)

    try:
        async with aiohttp.ClientSession() as session:
            asking = [asyncio.create_task(ask(session)) for _ in range(4)]
            try:
                yield gateway.url
            finally:
                for task in asking:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
    finally:
        await gateway.stop(grace_s=0.0)


async def until_tried(client: ControlClient) -> None:
    """Wait until each arm of the comparison has had requests."""

    while True:
        status = await client.status()
        if status["trial"] == TRIED.digest and all(arm["cells"] for arm in status["arms"].values()):
            return
        await asyncio.sleep(0.05)


Begin = Callable[[asyncio.Event], Awaitable[Any]]


def begin(client: ControlClient) -> Begin:
    return lambda stop: run_comparison(client, TRIED, longest_s=600, seed=0, stop=stop, say=lambda _: None)


@pytest.mark.parametrize("before", [None, BEFORE])
async def test_the_plan_of_before_is_in_force_again(before: Plan | None) -> None:
    async with shop_under_load() as url:
        client = ControlClient(url, TOKEN)
        if before is not None:
            await client.put_plan(before)
        author = (await client.status())["author"]
        stop = asyncio.Event()
        comparing = asyncio.ensure_future(begin(client)(stop))
        await until_tried(client)
        stop.set()
        result = await comparing
        assert {arm for arm, each in result.arms.items() if each.requests} == {
            "none",
            "one_percentile",
            "plan",
        }
        assert result.percentile == pytest.approx(90)
        status = await client.status()
        assert (await client.plan(), status["trial"]) == (before, None)
        assert status["author"] == (author if before is not None else "autopilot")


async def test_a_comparison_that_is_cancelled_puts_the_plan_back_too() -> None:
    async with shop_under_load() as url:
        client = ControlClient(url, TOKEN)
        await client.put_plan(BEFORE)
        comparing = asyncio.ensure_future(begin(client)(asyncio.Event()))
        await until_tried(client)
        comparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await comparing
        assert ((await client.plan()), (await client.status())["trial"]) == (BEFORE, None)


async def test_what_a_person_puts_in_force_meanwhile_stays_and_ends_the_comparison() -> None:
    async with shop_under_load() as url:
        client = ControlClient(url, TOKEN)
        comparing = asyncio.ensure_future(begin(client)(asyncio.Event()))
        await until_tried(client)
        await client.put_plan(BEFORE)
        with pytest.raises(InputError, match="another plan was put in force meanwhile"):
            await comparing
        assert await client.plan() == BEFORE


async def test_other_services_and_plans_that_do_not_fit_are_refused() -> None:
    async with shop_under_load() as url:
        client = ControlClient(url, TOKEN)
        await client.put_plan(BEFORE)
        stop = asyncio.Event()

        async def compared(plan: Plan) -> None:
            await run_comparison(client, plan, longest_s=1, seed=0, stop=stop, say=lambda _: None)

        other = plan_of(20.0)
        with pytest.raises(InputError, match="serves 'shop', and the plan is for 'tea'"):
            await compared(Plan.from_json(other.to_json().replace('"shop"', '"tea"'), where="x"))
        with pytest.raises(InputError, match="stock"):
            await compared(Plan.from_json(other.to_json().replace('"stock"', '"stocks"'), where="x"))
        assert await client.plan() == BEFORE
        await client.let_autopilot(go_on=True)
        words = {"phase": "watching", "sentence": "", "budget": 0.05, "limit": 0, "changes": 0, "useless": 0}
        await client.put_note(AutopilotNote(at_s=0.0, decided={}, history=[], **words))  # type: ignore[arg-type]
        with pytest.raises(InputError, match="an autopilot steers it; stop that first"):
            await compared(TRIED)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
async def test_after_a_signal_the_plan_of_before_is_in_force_again(number: int, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(TRIED.to_json())
    async with shop_under_load() as url:
        client = ControlClient(url, TOKEN)
        await client.put_plan(BEFORE)
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kwiken", "compare", url, str(tmp_path / "plan.json"), "--json"),
            env=os.environ | {"KWIKEN_TOKEN": TOKEN},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(120):
                await until_tried(client)
            command.send_signal(number)
            async with asyncio.timeout(120):
                out, said = await command.communicate()
        finally:
            if command.returncode is None:
                command.kill()
                await command.wait()
        assert command.returncode == 128 + number, said
        assert b'"verdict": "open"' in out
        assert b"the plan of before is in force again" in said
        assert ((await client.plan()), (await client.status())["trial"]) == (BEFORE, None)
