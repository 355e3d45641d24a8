"""Clients that exhaust connections, memory, time or log space: other clients are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import uvloop

from kwiken.runtime.wire.http_server.aiohttp_server import ClientTimeouts
from tests.support.peers.raw_http import Place, Servers, servers, status_of, until

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
WHICH = ("gateway", "replica")
TARGET = "tests.support.services.http:service"
MIB = 1 << 20
ROOM = 8
BODIES = 2 * MIB


def narrow(running: Servers) -> None:
    """Server settings with few connections and short timeouts."""
    running.gateway._listener._most = ROOM
    running.gateway._listener._timeouts = ClientTimeouts(head_s=1.0, body_s=1.0, idle_s=60.0, sweep_s=0.1)
    running.replica._server._most = ROOM


@pytest.fixture(scope="module", params=LOOPS, ids=["asyncio", "uvloop"])
def few(request: pytest.FixtureRequest) -> Iterator[Servers]:
    with servers(loop=request.param, adapt=narrow) as found:
        yield found


@pytest.fixture(scope="module")
def small() -> Iterator[Servers]:
    with servers(max_bodies=BODIES) as found:
        yield found


@contextlib.contextmanager
def held(place: Place, count: int, text: bytes = b"") -> Iterator[list[socket.socket]]:
    """A number of connections, on each of which some bytes are sent."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(place.connect()) for _ in range(count)]
        for sock in found:
            sock.sendall(text)
        yield found


def connections(running: Servers, which: str) -> int:
    if which == "gateway":
        web = running.gateway._listener._web
        assert web is not None
        return len(list(web.connections)) + len(web._quick.connections)
    assert running.replica._server is not None
    return len(list(running.replica._server.connections))


def taken(running: Servers, which: str) -> int:
    budget = running.gateway._listener._budget if which == "gateway" else running.replica._server.budget
    return budget.taken


@pytest.mark.parametrize("which", WHICH)
def test_every_connection_beyond_the_limit_gets_503(few: Servers, which: str) -> None:
    place = few.places[which]
    until(lambda: not connections(few, which))
    with held(place, ROOM):
        until(lambda: connections(few, which) == ROOM)
        for body in (b"", b"x" * 100_000):  # longer than what is read before the answer is written
            told = [place.status(place.good(body=body)) for _ in range(10)]
            assert told == [503] * 10
        with held(place, 30, place.good()) as more:  # all at once
            assert [status_of(sock) for sock in more] == [503] * 30
        assert connections(few, which) == ROOM
    until(place.serves)


def test_a_head_that_never_ends_is_hung_up_on(few: Servers) -> None:
    place = few.places["gateway"]
    until(lambda: not connections(few, "gateway"))
    with held(place, ROOM - 1, b"POST /v1/request HTTP/1.1\r\nHost: loc") as slow:
        assert place.serves()
        assert [status_of(sock) for sock in slow] == [0] * (ROOM - 1)


@pytest.mark.parametrize("which", WHICH)
def test_half_sent_bodies_are_bounded_together(small: Servers, which: str) -> None:
    place = small.places[which]
    half = b"x" * (MIB // 2)
    heads = [place.good(body=half, length=MIB)]
    if which == "gateway":
        chunked = place.good(b"Transfer-Encoding: chunked", body=b"").replace(b"Content-Length: 0\r\n", b"")
        heads.append(chunked + b"80000\r\n" + half + b"\r\n")
    for text in heads:
        with contextlib.ExitStack() as stack:
            callers = [stack.enter_context(place.connect()) for _ in range(12)]
            for caller in callers:
                caller.settimeout(0.2)
            refused = 0
            for caller in callers:
                with contextlib.suppress(TimeoutError):
                    refused += status_of(caller, text) == 503
                assert taken(small, which) <= BODIES
            assert 5 <= refused <= 11
            # Clients with small requests are served all the same.
            assert place.status(place.good(b"X-Padding: " + b"x" * 4000, b"Connection: close")) == 200
        until(lambda: not taken(small, which))
    assert place.serves()


@pytest.mark.parametrize("which", WHICH)
def test_a_refused_body_gets_retry_after(small: Servers, which: str) -> None:
    place = small.places[which]
    with place.connect() as sock:
        with contextlib.suppress(OSError):
            sock.sendall(place.good(body=b"x" * (BODIES + MIB)))
        head = sock.recv(65_536).partition(b"\r\n\r\n")[0]
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1" in head
    assert (b"\r\nkw-refused: 1" in head) == (which == "replica")
    until(lambda: not taken(small, which))


@pytest.mark.parametrize("which", WHICH)
def test_an_announced_body_reserves_no_memory(small: Servers, which: str) -> None:
    place = small.places[which]
    with held(place, 30, place.good(body=b"", length=4 * MIB)):
        assert place.status(place.good(body=b"x" * MIB)) in {
            400,
            500,
        }  # it is read completely, and is no valid request


def test_what_is_sent_ahead_counts_too(small: Servers) -> None:
    place = small.places["gateway"]
    slow = place.good(body=b'{"text":"a","sleep_ms":1500}')
    with held(place, 12, slow) as callers:
        time.sleep(0.2)
        for caller in callers:
            caller.settimeout(0.2)
            with contextlib.suppress(OSError):
                caller.sendall(place.good(body=b"x" * MIB))
            assert taken(small, "gateway") <= BODIES
    until(lambda: not taken(small, "gateway"))
    assert place.serves()


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_work_is_cancelled_for_a_disconnected_client_and_not_for_a_reading_one(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], which: str
) -> None:
    def ask(place: Place, folder: Path, sleep_ms: int) -> bytes:
        folder.mkdir()
        told = {"text": "a", "sleep_ms": sleep_ms, "log": str(folder)}
        return place.good(
            body=msgspec.json.encode(told) if which == "gateway" else msgspec.msgpack.encode([told])
        )

    def marks(folder: Path, kind: str) -> list[Path]:
        return list(folder.glob(f"*.{kind}"))

    with servers(loop=loop) as running:
        place = running.places[which]
        gone, reads = tmp_path / "gone", tmp_path / "reads"
        with place.connect() as sock:
            sock.sendall(ask(place, gone, 60_000))
            until(lambda: marks(gone, "started"))
        until(lambda: marks(gone, "cancelled"), within_s=3.5)  # the stage's own timeout comes after 4 s
        with place.connect() as sock:
            sock.sendall(ask(place, reads, 300))
            sock.shutdown(socket.SHUT_WR)
            assert status_of(sock) == 200
        assert marks(reads, "ended")
        until(lambda: not connections(running, which))


def test_a_process_that_is_full_says_so_and_its_log_stays_small(tmp_path: Path) -> None:
    log = tmp_path / "log"
    serve = f"ulimit -n 80; exec {sys.executable} -m kwiken serve {TARGET} --local --port 0"
    with log.open("ab") as file:
        process = subprocess.Popen(["/bin/sh", "-c", serve], stderr=file, stdout=file)
    try:
        until(lambda: b" at http://" in log.read_bytes())
        place = Place(
            int(log.read_text().rpartition(":")[2]), b"/v1/request", b"application/json", b'{"text":"a"}'
        )
        began = log.stat().st_size
        with held(place, 64):
            until(lambda: place.status(place.good()) == 503)
            assert [place.status(place.good()) for _ in range(100)] == [503] * 100
        until(place.serves)
        for number in range(100):
            assert place.status(b"GET /%d HTTP/1.1\r\nContent-Length: abc\r\n\r\n" % number) in {400, 0}
            place.status(place.good(b"kw-priority: --9"))
        assert place.serves()
        assert log.stat().st_size - began < 5000, log.read_text()
        assert "Traceback" not in log.read_text()
        assert 1 <= log.read_text().count("no HTTP request") <= 50
    finally:
        process.terminate()
        process.wait(30)
