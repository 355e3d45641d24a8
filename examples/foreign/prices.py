"""Price service over HTTP, written without kwiken: GET /prices/SKU?currency=EUR, and /healthz."""

from __future__ import annotations

import argparse
import asyncio

from aiohttp import web

CENTS = {"tea": 350, "milk": 120, "bread": 290}
RATES = {"EUR": 1.0, "USD": 1.1}


async def price(request: web.Request) -> web.Response:
    """Price of one article, after some milliseconds of work."""
    await asyncio.sleep(0.005)
    sku, currency = request.match_info["sku"], request.query.get("currency", "EUR")
    if sku not in CENTS or currency not in RATES:
        return web.json_response({"error": f"no price of {sku} in {currency}"}, status=404)
    return web.json_response({"sku": sku, "cents": round(CENTS[sku] * RATES[currency])})


async def healthz(request: web.Request) -> web.Response:
    """Health check."""
    del request
    return web.Response(text="ok")


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    app = web.Application()
    app.add_routes([web.get("/prices/{sku}", price), web.get("/healthz", healthz)])
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port, print=None)


if __name__ == "__main__":
    main()
