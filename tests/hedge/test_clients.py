"""The adapters of the hedger for aiohttp, HTTPX and grpc.aio, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import grpc
import grpc.aio
import httpx
import pytest
from aiohttp import web

from kwiken.base.errors import InputError
from kwiken.hedge.aiohttp_session import HedgedSession
from kwiken.hedge.grpc_interceptor import HedgedUnaryCalls
from kwiken.hedge.hedger import Hedger
from kwiken.hedge.httpx_transport import HedgedTransport
from kwiken.hedge.routes import Routes
from kwiken.model.plan.plan import Budgets, Costs, Plan, SpanMatch, StagePlan
from kwiken.model.service.stage import Reissue
from tests.support.runtime.waiting import until

SOON_MS = 20.0
NAMES = {"GET /items/{id}": SOON_MS, "POST /search": SOON_MS}


@dataclass
class Shop:
    """A service whose first answer to each path is slow, and which notes what it gets."""

    url: str = ""
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    cancelled: int = 0
    statuses: list[int] = field(default_factory=lambda: [200, 200])
    slow_s: float = 30.0

    async def handle(self, request: web.Request) -> web.Response:
        number = sum(seen[1] == request.path for seen in self.seen)
        self.seen.append((request.method, request.path, await request.text()))
        try:
            await asyncio.sleep(0.0 if number else self.slow_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return web.Response(text=f"answer {number}", status=self.statuses[number])


@asynccontextmanager
async def shop(**settings: Any) -> AsyncIterator[Shop]:
    made = Shop(**settings)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()


class Aiohttp:
    """One request by an aiohttp session."""

    def __init__(self, hedger: Hedger) -> None:
        self.hedger = hedger

    async def __call__(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session:
            hedged = HedgedSession(self.hedger, session)
            async with hedged.request(method, url, data=body) as response:
                return response.status, await response.text()


class Httpx:
    """One request by an HTTPX client."""

    def __init__(self, hedger: Hedger) -> None:
        self.hedger = hedger

    async def __call__(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        async with httpx.AsyncClient(transport=HedgedTransport(self.hedger)) as client:
            response = await client.request(method, url, content=body, timeout=60)
            return response.status_code, response.text


@pytest.fixture(params=[Aiohttp, Httpx])
def client(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_a_slow_read_gets_a_copy_and_its_server_sees_the_end(client: Any) -> None:
    async with shop() as served:
        assert await client(Hedger.fixed(NAMES))("GET", f"{served.url}/items/7?full=1") == (200, "answer 1")
        await until(lambda: served.cancelled)


async def test_a_write_gets_no_copy(client: Any) -> None:
    async with shop(slow_s=0.1) as served:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            served.seen.clear()
            assert await client(Hedger.fixed({"/items/{id}": SOON_MS}))(method, f"{served.url}/items/7") == (
                200,
                "answer 0",
            )
            assert len(served.seen) == 1


async def test_a_read_by_post_that_the_plan_names_gets_a_copy_with_its_body(client: Any) -> None:
    async with shop() as served:
        assert await client(Hedger.fixed(NAMES))("POST", f"{served.url}/search", b"shoes") == (
            200,
            "answer 1",
        )
        assert [seen[2] for seen in served.seen] == ["shoes", "shoes"]


async def test_a_body_that_can_be_sent_once_gets_no_copy(client: Any) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"shoes"

    async with shop(slow_s=0.1) as served:
        assert await client(Hedger.fixed(NAMES))("POST", f"{served.url}/search", body()) == (200, "answer 0")
        assert len(served.seen) == 1


async def test_a_request_that_is_no_stages_goes_out_as_it_is(client: Any) -> None:
    async with shop(slow_s=0.1) as served:
        assert await client(Hedger.fixed(NAMES))("GET", f"{served.url}/other") == (200, "answer 0")


async def test_an_error_of_the_server_does_not_win(client: Any) -> None:
    async with shop(statuses=[200, 503], slow_s=0.2) as served:
        assert await client(Hedger.fixed(NAMES))("GET", f"{served.url}/items/7") == (200, "answer 0")
        assert len(served.seen) == 2


async def test_errors_of_all_servers_are_answered_by_the_first(client: Any) -> None:
    async with shop(statuses=[500, 503], slow_s=0.2) as served:
        assert await client(Hedger.fixed(NAMES))("GET", f"{served.url}/items/7") == (500, "answer 0")


async def test_a_service_that_is_down_raises_the_clients_own_error() -> None:
    hedger = Hedger.fixed(NAMES)
    with pytest.raises(aiohttp.ClientConnectionError):
        await Aiohttp(hedger)("GET", "http://127.0.0.1:9/items/7")
    with pytest.raises(httpx.ConnectError):
        await Httpx(hedger)("GET", "http://127.0.0.1:9/items/7")
    assert hedger.counts["GET /items/{id}"].failed == 2


async def test_a_plans_own_match_says_which_requests_are_the_stages() -> None:
    match = SpanMatch(service="items", operation="GET /items/{id}")
    plan = Plan(
        version=1,
        service="shop",
        created="",
        profile="",
        budgets=Budgets(reissue=0.05),
        cost=Costs(model="calls", stages={"lookup": 1.0}),
        stages={"lookup": StagePlan(match=match, reissue=Reissue(after_ms=SOON_MS))},
    )
    hedger = Hedger(plan)
    async with shop() as served:
        assert await Httpx(hedger)("GET", f"{served.url}/items/7") == (200, "answer 1")
    assert hedger.counts["lookup"].copies == 1


async def test_a_plan_that_comes_into_force_changes_which_requests_are_hedged() -> None:
    hedger = Hedger.fixed(NAMES)
    async with shop(slow_s=0.1) as served, aiohttp.ClientSession() as session:
        hedged = HedgedSession(hedger, session)
        for names in ({"GET /other": SOON_MS}, {"search": SOON_MS}, NAMES):
            served.seen.clear()
            hedger.apply(Hedger.fixed(names).plan)
            async with hedged.get(f"{served.url}/items/1") as response:
                await response.read()
            assert len(served.seen) == (2 if names is NAMES else 1)


@pytest.mark.parametrize(
    ("names", "method", "path", "found"),
    [
        (["/a", "GET /a"], "GET", "/a", None),  # which of the two is meant is in doubt
        (["/a"], "GET", "/a", ("/a", True)),
        (["/a"], "POST", "/a", ("/a", False)),
        (["/a/{x}", "/a/b"], "GET", "/a/b", ("/a/b", True)),
        (["/a/{x}"], "GET", "/a/b/c", None),
        (["/a/{x}"], "GET", "/a/", None),
        (["/a.b"], "GET", "/axb", None),
        (["s.S/M"], "POST", "/s.S/M", ("s.S/M", True)),
        (["s.S/M"], "GET", "/s.S/M", None),
    ],
)
def test_the_stage_of_a_request(names: list[str], method: str, path: str, found: Any) -> None:
    plan = Hedger.fixed(dict.fromkeys(names, 1.0)).plan
    assert Routes(lambda: plan).find(method, path) == found


def test_a_plan_without_calls_is_refused() -> None:
    with pytest.raises(InputError, match="no stage is a call that can be recognised"):
        HedgedTransport(Hedger.fixed({"search": 1.0}))


async def test_an_awaited_response_is_the_callers_to_release() -> None:
    async with shop() as served, aiohttp.ClientSession() as session:
        response = await HedgedSession(Hedger.fixed(NAMES), session).get(f"{served.url}/items/1")
        assert await response.text() == "answer 1"
        response.release()


# gRPC, with messages of plain bytes.


@dataclass
class Rpcs:
    """A server of `shop.Items` whose first call is slow."""

    port: int = 0
    tenants: list[str] = field(default_factory=list)
    cancelled: int = 0
    fails: grpc.StatusCode | None = None
    slow_s: float = 30.0

    async def handle(self, request: bytes, context: Any) -> bytes:
        number = len(self.tenants)
        self.tenants.append(dict(context.invocation_metadata()).get("tenant", ""))
        try:
            await asyncio.sleep(0.0 if number else self.slow_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fails is not None and number:
            await context.abort(self.fails, "no")
        return request + str(number).encode()


@asynccontextmanager
async def rpcs(**settings: Any) -> AsyncIterator[Rpcs]:
    served, server = Rpcs(**settings), grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(served.handle)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("shop.Items", {"Get": handler, "Put": handler}),)
    )
    served.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield served
    finally:
        await server.stop(None)


@asynccontextmanager
async def calling(served: Rpcs, method: str = "Get") -> AsyncIterator[Any]:
    hedger = Hedger.fixed({"shop.Items/Get": SOON_MS})
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{served.port}", interceptors=[HedgedUnaryCalls(hedger)]
    ) as channel:
        yield channel.unary_unary(f"/shop.Items/{method}")


async def test_a_slow_rpc_gets_a_copy_with_its_metadata() -> None:
    async with rpcs() as served, calling(served) as get:
        call = get(b"n", metadata=(("tenant", "a"),))
        assert await call == b"n1"
        assert await call.code() == grpc.StatusCode.OK
        assert served.tenants == ["a", "a"]
        await until(lambda: served.cancelled)


async def test_an_rpc_that_the_plan_does_not_name_gets_no_copy() -> None:
    async with rpcs(slow_s=0.1) as served, calling(served, "Put") as put:
        assert await put(b"n") == b"n0"
        assert served.tenants == [""]


async def test_a_copy_of_an_rpc_that_fails_does_not_win() -> None:
    async with rpcs(slow_s=0.2, fails=grpc.StatusCode.UNAVAILABLE) as served, calling(served) as get:
        assert await get(b"n") == b"n0"
        assert len(served.tenants) == 2


async def test_the_error_of_an_rpc_is_the_first_attempts() -> None:
    async with rpcs(slow_s=30.0) as served, calling(served) as get:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(b"n", timeout=0.0001)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
