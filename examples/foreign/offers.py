"""Offer service over HTTP, written without kwiken: POST /offers with a price and a stock, and /healthz."""

from __future__ import annotations

import argparse
import asyncio

from aiohttp import web


async def offer(request: web.Request) -> web.Response:
    """Line that the customer reads, after some milliseconds of work."""
    await asyncio.sleep(0.005)
    asked = await request.json()
    return web.json_response(
        f"{asked['pieces']} pieces of {asked['sku']}, {asked['cents']} cents each",
    )


async def healthz(request: web.Request) -> web.Response:
    """Health check."""
    del request
    return web.Response(text="ok")


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    app = web.Application()
    app.add_routes([web.post("/offers", offer), web.get("/healthz", healthz)])
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port, print=None)


if __name__ == "__main__":
    main()
