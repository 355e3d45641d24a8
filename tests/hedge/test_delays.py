"""Delays of the hedger that follow the present latency, and limits of body size, at hedger and adapters."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp
import httpx
import pytest
from aiohttp import web

from kwiken.base.errors import InputError
from kwiken.hedge.aiohttp_session import HedgedSession
from kwiken.hedge.hedger import Hedger
from kwiken.hedge.httpx_transport import HedgedTransport
from kwiken.model.service.stage import Following, Reissue
from kwiken.testing.virtual_loop import VirtualClock, simulate

CALLS = 2000
MEAN_S = 0.01
P99_MS = 46.05  # of exponential latencies with that mean
FOLLOW = Following(quantile=0.99, least_ms=P99_MS / 2, most_ms=P99_MS * 8)


def calls_at(times: float, policy: Reissue) -> Hedger:
    """The hedger after 2,000 calls that all take so many times as long as usual."""
    draw = random.Random(7)

    async def send(_: int) -> None:
        await asyncio.sleep(draw.expovariate(1 / (times * MEAN_S)))

    async def main() -> Hedger:
        hedger = Hedger(Hedger.fixed({"s": policy}).plan, clock=VirtualClock().monotonic)
        for _ in range(CALLS):
            await hedger.call("s", send, read=True)
        return hedger

    return simulate(main)


def test_a_following_delay_copies_no_more_where_all_calls_take_three_times_as_long() -> None:
    fixed = Reissue(after_ms=P99_MS, fraction=0.01)
    follow = Reissue(after_ms=P99_MS, fraction=0.01, follow=FOLLOW)
    usual = calls_at(1.0, fixed).counts["s"].copies
    assert calls_at(3.0, fixed).counts["s"].copies > 2 * usual
    assert calls_at(3.0, follow).counts["s"].copies <= 1.5 * CALLS * 0.01 + 24


def test_the_present_delay_is_told() -> None:
    follow = Reissue(after_ms=P99_MS, fraction=0.01, follow=FOLLOW)
    assert Hedger.fixed({"s": follow, "t": 5.0}).delays_ms == pytest.approx({"s": P99_MS, "t": 5.0})
    assert P99_MS < calls_at(3.0, follow).delays_ms["s"] <= FOLLOW.most_ms


def test_a_call_whose_body_is_too_large_gets_no_copy() -> None:
    hedger = Hedger.fixed({"s": Reissue(after_ms=5, max_body_bytes=100)})

    async def send(number: int) -> int:
        await asyncio.sleep(0.05 if number == 0 else 0)
        return number

    async def ask(size: int) -> int:
        return await hedger.call("s", send, read=True, body_bytes=size)

    assert asyncio.run(ask(100)) == 1
    assert asyncio.run(ask(101)) == 0


@pytest.mark.parametrize("client", ["aiohttp", "httpx"])
@pytest.mark.parametrize("body", [{"data": b"x" * 30}, {"json": {"q": "x" * 24}}, {}])
async def test_clients_know_the_size_of_a_body(client: str, body: dict[str, Any]) -> None:
    served: list[int] = []

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        served.append(1)
        await asyncio.sleep(0.2 if len(served) == 1 else 0)
        return web.Response()

    app = web.Application()
    app.router.add_post("/find", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/find"
    hedger = Hedger.fixed({"POST /find": Reissue(after_ms=20, max_body_bytes=29)})
    try:
        if client == "aiohttp":
            async with (
                aiohttp.ClientSession() as session,
                HedgedSession(hedger, session).post(url, **body),
            ):
                pass
        else:
            told = {"content" if name == "data" else name: value for name, value in body.items()}
            async with httpx.AsyncClient(transport=HedgedTransport(hedger)) as other:
                await other.post(url, **told)
    finally:
        await runner.cleanup()
    assert hedger.counts["POST /find"].copies == (0 if body else 1)


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="must be a name with a delay"):
        Hedger.fixed({"s": "5"})  # type: ignore[dict-item]
