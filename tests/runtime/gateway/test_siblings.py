"""Sibling gateways: each tells of all, knows itself among them, names the silent ones, and passes plans on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Sequence
from typing import Final

import aiohttp
import pytest
from aiohttp import web

from kwiken.model.plan.plan import Budgets, Costs, Plan
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.ledger.shared_budget import SharedBudget
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.plan_in_force import PlanInForce
from kwiken.runtime.gateway.control.siblings import INSTANCE, SiblingAnswers, Siblings
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.runtime.server_processes import free_port
from tests.support.services.single import service

TOKEN = "secret"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@contextlib.asynccontextmanager
async def gateways(count: int, *, lost: Sequence[str] = ()) -> AsyncIterator[list[Gateway]]:
    """Gateways that run their stages themselves, each of which knows the addresses of all."""
    found: list[Gateway] = []
    urls: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        for number in range(count):
            transport = LocalTransport(service)
            await transport.setup()
            executor = Executor(
                service,
                transport,
                replicas=local_replicas(service),
                clock=SystemClock(),
                rng=random.Random(number),
            )
            name = f"gateway-{number}"
            budget = SharedBudget(executor.ledger, name, 0.0, least=count)
            siblings = Siblings(lambda: [*urls, *lost], TOKEN)
            exchange = Exchange(PlanInForce(executor, name), siblings, budget, executor.ledger)
            settings = GatewaySettings(token=TOKEN, remote=False, name=name)
            gateway = Gateway(service, executor, settings, exchange=exchange)
            await gateway.start()
            stack.push_async_callback(gateway.stop, grace_s=1.0, linger_s=0.0)
            urls.append(gateway.url)
            found.append(gateway)
        yield found


async def say(method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
    headers = HEADERS | {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers=headers) as answer,
    ):
        return answer.status, await answer.read()


async def ask(gateway: Gateway, times: int) -> None:
    for _ in range(times):
        assert (await say("POST", gateway.url + "/v1/request", b'"hi"'))[0] == 200


async def test_whichever_is_asked_tells_of_all_with_a_line_for_each() -> None:
    async with gateways(3) as those:
        for times, gateway in enumerate(those, start=1):
            await ask(gateway, times)
        for gateway in those:
            status = json.loads((await say("GET", gateway.url + "/v1/status"))[1])
            assert status["requests"] == 6
            lines = {line["gateway"]: line["requests"] for line in status["gateways"]}
            assert lines == {"gateway-0": 1, "gateway-1": 2, "gateway-2": 3}
            assert status["gateways_silent"] == []
            page = json.loads((await say("GET", gateway.url + "/v1/live"))[1])
            assert page["status"]["requests"] == 6
            assert len(page["gateways"]) == 3
            text = (await say("GET", gateway.url + "/metrics"))[1].decode()
            counted = [
                line for line in text.splitlines() if line.startswith("kw_request_duration_seconds_count")
            ]
            answered = {line for line in counted if 'outcome="answered"' in line}
            assert {line.rpartition(" ")[2] for line in answered} == {"1.0", "2.0", "3.0"}
            assert len({line.partition('kw_gateway="')[2][:9] for line in answered}) == 3


async def test_alone_a_gateway_tells_of_itself() -> None:
    async with gateways(2) as (first, second):
        await ask(first, 2)
        await ask(second, 1)
        alone = json.loads((await say("GET", first.url + "/v1/status?alone=1"))[1])
        assert (alone["requests"], alone["gateway"]) == (2, "gateway-0")
        assert "gateways" not in alone
        text = (await say("GET", second.url + "/metrics?alone=1"))[1].decode()
        assert "kw_gateway" not in text


async def test_a_silent_sibling_is_named_and_the_others_are_counted() -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    async with gateways(2, lost=[gone]) as (first, second):
        await ask(second, 1)
        status = json.loads((await say("GET", first.url + "/v1/status"))[1])
        assert status["requests"] == 1
        assert len(status["gateways_silent"]) == 1
        assert status["gateways_silent"][0].startswith(gone)


async def test_what_is_no_gateway_of_the_service_is_named_and_not_added() -> None:
    async def stranger(request: web.Request) -> web.Response:
        del request
        return web.json_response({"service": service.name, "requests": 7})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stranger)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with gateways(1, lost=[url]) as (first,):
            await ask(first, 2)
            for path in ("/v1/status", "/v1/live"):
                code, body = await say("GET", first.url + path)
                told = json.loads(body)
                assert code == 200
                assert told["gateways_silent"] == [f"{url}: answered 200, and is no gateway of kwiken"]
                assert told.get("status", told)["requests"] == 2
            assert (await say("GET", first.url + "/metrics"))[0] == 200
            assert (await say("PUT", first.url + "/v1/plan", _plan()))[0] == 200
    finally:
        await runner.cleanup()


STRANGE: Final = {
    "no JSON": b"\x00",
    "half": b'{"service": "single", "requests": ',
    "lists": b'{"service": "single", "x": [' + b"[]," * 300_000 + b"0]}",
    "depth": b'{"service": "single", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "extremes": b'{"service": "single", "x": [' + b"1e308," * 5000 + b"0]}",
    "a list": b"[]",
    "no figures": b'{"service": "single"}',
    "other figures": b'{"service": "single", "requests": "many", "stages": [], "recent": 1}',
    "families": b"\xdd\x00\x1e\x84\x80" + b"\x90" * 2_000_000,
    "another service": b'{"service": "' + b"s" * 100_000 + b'"}',
}


@pytest.mark.parametrize("kind", STRANGE)
async def test_whatever_answers_as_a_sibling_the_others_are_told_of(kind: str) -> None:
    async def stranger(request: web.Request) -> web.Response:
        del request
        return web.Response(
            body=STRANGE[kind].replace(b"single", service.name.encode()), headers={INSTANCE: "x"}
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stranger)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with gateways(1, lost=[url]) as (first,):
            await ask(first, 2)
            for path in ("/v1/status", "/v1/live"):
                code, body = await say("GET", first.url + path)
                assert (code, len(body) < 100_000) == (200, True), body[:300]
                told = json.loads(body)
                assert len(told["gateways_silent"]) == 1
                assert told.get("status", told)["requests"] == 2
            assert (await say("GET", first.url + "/metrics"))[0] == 200
            assert (await say("PUT", first.url + "/v1/plan", _plan()))[0] == 200
    finally:
        await runner.cleanup()


def test_a_gateway_of_another_service_is_named() -> None:
    answers = SiblingAnswers([b'{"service":"a"}', b'{"service":"b"}'], ["gateway-1", ""], ["x: gone"])
    found, silent = answers.documents("a", str)
    assert found == [{"service": "a"}]
    assert silent == ["x: gone", "a gateway: serves 'b', not 'a'"]


async def test_samples_of_one_second_are_added_and_the_newest_wait_for_all() -> None:
    async with gateways(2) as (first, second):
        await ask(first, 3)
        await ask(second, 4)

        async def totals() -> list[int]:
            page = json.loads((await say("GET", first.url + "/v1/live"))[1])
            return [sample["counts"]["requests"] for sample in page["samples"]]

        for _ in range(75):
            found = await totals()
            if found and found[-1] == 7:
                break
            await asyncio.sleep(0.2)
        else:
            raise AssertionError(found)


async def test_a_plan_is_passed_on_to_all() -> None:
    plan = _plan()
    async with gateways(3) as those:
        assert (await say("PUT", those[0].url + "/v1/plan", plan))[0] == 200
        digests = [json.loads((await say("GET", one.url + "/v1/status?alone=1"))[1])["plan"] for one in those]
        assert len(set(digests)) == 1
        assert digests[0] is not None


def _plan() -> bytes:
    return Plan(
        version=1,
        service=service.name,
        created="2026-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=0.05),
        cost=Costs(model="calls", stages={"work": 1.0}),
        stages={},
    ).to_json().encode()  # fmt: skip
