"""HTTP server with known behaviour, for tests: answers after a fixed time, stalls or fails on demand.

Run it as `python -m benchmarks.load.fake_server`. It prints its port, listens on loopback only, and ends when
its standard input does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import IO, cast

_PHRASES = {200: "OK", 404: "Not Found", 500: "Internal Server Error", 503: "Service Unavailable"}
_ANSWER = b'{"answer": 1}'


class Behaviour:
    """Configured behaviour and request count, shared by all connections."""

    def __init__(self, options: argparse.Namespace, log: IO[str] | None) -> None:
        self.delay_s: float = options.delay_ms / 1e3
        self.statuses: list[int] = options.statuses
        self.framing: str = options.framing
        self.more: str = options.header
        self._stall_at_s: float | None = options.stall_at
        self._stall_s: float = options.stall_ms / 1e3
        self._log = log
        self._first = 0.0
        self.count = 0

    def on_request(self, head: bytes, body: bytes) -> int:
        """Log a request and return the status to answer with; 0 to close the connection instead."""
        now = time.monotonic()
        if self.count == 0:
            self._first = now
        if self._stall_at_s is not None and now - self._first >= self._stall_at_s:
            self._stall_at_s = None
            time.sleep(self._stall_s)  # blocks the event loop, so that no connection is answered meanwhile
        self.count += 1
        if self._log is not None:
            self._log.write(json.dumps({"head": head.decode("latin-1"), "body": body.decode("utf-8")}) + "\n")
            self._log.flush()
        return self.statuses[(self.count - 1) % len(self.statuses)]


class Connection(asyncio.Protocol):
    """Minimal HTTP/1.1 connection: one request at a time, bodies by Content-Length."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport has the same methods but is no subclass

    def data_received(self, data: bytes) -> None:
        """Answer once a whole request has arrived."""
        self._data += data
        head, mark, rest = self._data.partition(b"\r\n\r\n")
        if not mark:
            return
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(rest) < length:
            return
        self._data = rest[length:]
        status = self._behaviour.on_request(head, rest[:length])
        if self._behaviour.delay_s:
            asyncio.get_running_loop().call_later(self._behaviour.delay_s, self._answer, status)
        else:
            self._answer(status)

    def _answer(self, status: int) -> None:
        assert self._transport is not None
        if status:
            self._transport.write(_response(status, self._behaviour.framing, self._behaviour.more))
        if not status or self._behaviour.framing == "close":
            self._transport.close()


def _response(status: int, framing: str, more: str) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_PHRASES.get(status, 'Status')}\r\nContent-Type: application/json\r\n"
        + (f"{more}\r\n" if more else "")
    ).encode()
    if framing == "chunked":
        half = len(_ANSWER) // 2
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (_ANSWER[:half], _ANSWER[half:]))
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    if framing == "close":
        return head + b"Connection: close\r\n\r\n" + _ANSWER
    if framing == "cut":
        return head + b"Content-Length: 1000\r\n\r\n" + _ANSWER
    if framing == "garbage":
        return b"\x16\x03\x01 this is not HTTP\r\n\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(_ANSWER) + _ANSWER


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--stall-at", type=float, help="seconds after the first request")
    parser.add_argument("--stall-ms", type=float, default=500.0)
    parser.add_argument(
        "--statuses", type=lambda text: [int(part) for part in text.split(",")], default=[200]
    )
    parser.add_argument(
        "--framing", choices=("length", "chunked", "close", "cut", "garbage"), default="length"
    )
    parser.add_argument("--header", default="", help="one more header for every answer")
    parser.add_argument("--log", help="file for one JSON line per request")
    return parser.parse_args()


async def _serve(options: argparse.Namespace, log: IO[str] | None) -> None:
    loop = asyncio.get_running_loop()
    behaviour = Behaviour(options, log)
    server = await loop.create_server(lambda: Connection(behaviour), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    """Serve until stdin ends, so that no server outlives the process that started it."""
    options = _options()
    log = None if options.log is None else Path(options.log).open("w", encoding="utf-8")  # noqa: SIM115 - as long as it serves
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(options, log))
    else:
        uvloop.run(_serve(options, log))


if __name__ == "__main__":
    main()
