"""Chain of three trivial stages: as a service on this runtime, and written by hand on aiohttp.

`python -m benchmarks.gateway.chain` runs the hand-written processes: it prints its address on one line and
ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import aiohttp
import msgspec
import uvloop
from aiohttp import web

from kwiken.model.service.service import Service

STAGES = ("one", "two", "three")


class Item(msgspec.Struct):
    """Message that passes through the chain."""

    text: str
    hops: int = 0


chain = Service("chain")


@chain.stage(idempotent=True)
async def one(item: Item) -> Item:
    return step(item)


@chain.stage(after=[one], idempotent=True)
async def two(item: Item) -> Item:
    return step(item)


@chain.stage(after=[two], idempotent=True)
async def three(item: Item) -> Item:
    return step(item)


def step(item: Item) -> Item:
    """A stage's work."""
    return Item(item.text, item.hops + 1)


def plain_stage() -> web.Application:
    """A stage by hand: MessagePack in, MessagePack out."""
    decoder = msgspec.msgpack.Decoder(Item)

    async def call(request: web.Request) -> web.Response:
        item = decoder.decode(await request.read())
        body = msgspec.msgpack.encode(step(item))
        return web.Response(body=body, content_type="application/msgpack")

    app = web.Application()
    app.router.add_post("/call", call)
    return app


def plain_gateway(*urls: str) -> web.Application:
    """A gateway by hand: JSON in, the stages' calls one after another with the bytes passed on, JSON out."""
    decoder = msgspec.json.Decoder(Item)
    sessions: list[aiohttp.ClientSession] = []

    async def ask(request: web.Request) -> web.Response:
        body = msgspec.msgpack.encode(decoder.decode(await request.read()))
        for url in urls:
            async with sessions[0].post(f"{url}/call", data=body) as response:
                response.raise_for_status()
                body = await response.read()
        answer = {"answer": msgspec.msgpack.decode(body)}
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def open_session(app: web.Application) -> None:
        del app
        sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))

    async def close_session(app: web.Application) -> None:
        del app
        await sessions[0].close()

    app = web.Application()
    app.router.add_post("/v1/request", ask)
    app.on_startup.append(open_session)
    app.on_cleanup.append(close_session)
    return app


async def serve(make: Callable[[], web.Application]) -> None:
    """Serve an application at any free port until the standard input closes."""
    runner = web.AppRunner(make(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    role, *places = sys.argv[1:]
    uvloop.run(serve(plain_stage if role == "stage" else lambda: plain_gateway(*places)))
