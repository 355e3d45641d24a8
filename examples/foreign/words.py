"""Stand-in for a model server, written without kwiken: POST /v1/completions answers by server-sent events.

Each event has one word, in the shape that model servers speak; `[DONE]` is the last one.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from aiohttp import web


async def complete(request: web.Request) -> web.StreamResponse:
    """Give the words of the prompt back, one event each."""
    asked = await request.json()
    times: argparse.Namespace = request.app["times"]
    if not asked.get("stream"):
        return web.json_response({"choices": [{"text": asked["prompt"]}]})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await asyncio.sleep(times.first_ms / 1e3)
    await response.prepare(request)
    for number, word in enumerate(asked["prompt"].split()):
        if number:
            await asyncio.sleep(times.between_ms / 1e3)
        event = {"choices": [{"index": 0, "text": word}]}
        await response.write(f"data: {json.dumps(event)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


async def healthz(request: web.Request) -> web.Response:
    """Health check."""
    del request
    return web.Response(text="ok")


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--first-ms", type=float, default=30.0, help="time before the first word")
    parser.add_argument("--between-ms", type=float, default=6.0, help="time between words")
    times = parser.parse_args()
    app = web.Application()
    app["times"] = times
    app.add_routes([web.post("/v1/completions", complete), web.get("/healthz", healthz)])
    web.run_app(app, host="127.0.0.1", port=times.port, print=None)


if __name__ == "__main__":
    main()
