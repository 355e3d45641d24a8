"""HTTP server in a thread of the test, on a free loopback port, that answers as the test tells it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Asked:
    """A request that the server got."""

    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True)
class Told:
    """An answer; `length` is the Content-Length, None for the true one."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass(frozen=True)
class HttpServer:
    """A running server: `HOST:PORT`, and the requests that it got."""

    address: str
    asked: list[Asked]

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@contextmanager
def http_server(answer: Callable[[Asked], Told] | Told = Told()) -> Iterator[HttpServer]:
    """Serve GET and POST until the block ends."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(Asked(self.path, self.headers, body))
            told = answer(asked[-1]) if callable(answer) else answer
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told.body) if told.length is None else told.length))
            self.end_headers()
            self.wfile.write(told.body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield HttpServer(f"127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
