"""Clients that wear out the doors over gRPC and HTTP: memory stays bounded, and other clients are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from grpc import StatusCode, aio

from kwiken.base.errors import InputError
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.admission import Admission, Limits
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.wire.grpc import incoming_messages, standard_services
from kwiken.runtime.wire.grpc.messages import (
    MAX_FIELDS,
    payload_message,
    payload_of,
)
from kwiken.runtime.wire.http_server.acceptor import SHARE_OF_FILES, max_connections
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.peers.grpc_messages import Request, ask_of
from tests.support.peers.raw_http2 import WINDOW, Http2Client
from tests.support.runtime.door_processes import MIB, DoorProcess, gateway_process, replica_process
from tests.support.runtime.waiting import PATIENCE_S, soon, until
from tests.support.services.http import service

ASK = "/kwiken.v1.Gateway/Ask"
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
REFLECT = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
BODIES_MIB = 64
SENT_MIB = 700  # what the clients together like to send
STREAMS = 200
MESSAGE = 4 * MIB
# What the server may hold: the budget, the messages that are not charged yet, and both once more, because
# memory that was freed is not always given back.
MAX_MIB = 2 * (BODIES_MIB + incoming_messages.MAX_UNCHARGED * MESSAGE / MIB)


def unfinished(size: int) -> bytes:
    """A gRPC message without its last byte."""
    return b"\0" + struct.pack(">I", size) + bytes(size - 1)


def flood_grpc(port: int, method: str, within_s: float = 6.0) -> float:
    """Send messages without ends on many streams of two connections; returns the MiB that went out."""
    text = memoryview(unfinished(MESSAGE))
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Http2Client(port))) for _ in range(2)]
        sent = {(client, stream): 0 for client in clients for stream in client.open(method, count=STREAMS)}
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and sum(sent.values()) < SENT_MIB * MIB:
            for client in clients:
                client.read()
            for (client, stream), place in sent.items():
                sent[client, stream] += client.write(stream, bytes(text[place : place + 65_536]))
    return sum(sent.values()) / MIB


def flood_http(port: int, within_s: float = 6.0) -> float:
    """Send bodies without ends on many connections; returns the MiB that went out."""
    head = (
        b"POST /v1/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % MESSAGE
    )
    total = 0
    with ExitStack() as stack:
        left: dict[socket.socket, int] = {}
        for _ in range(STREAMS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            sock.sendall(head)
            sock.setblocking(False)
            left[sock] = MESSAGE - 1
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and total < SENT_MIB * MIB:
            for sock, count in list(left.items()):
                with contextlib.suppress(BlockingIOError):
                    try:
                        went = sock.send(bytes(min(count, 65_536)))
                    except BlockingIOError:
                        raise
                    except OSError:
                        del left[sock]
                        continue
                    left[sock] -= went
                    total += went
    return total / MIB


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_bodies_without_ends_are_bounded_before_they_are_complete(way: str) -> None:
    bodies = ("--bodies-mib", str(BODIES_MIB))
    with gateway_process(*bodies) as server:
        serves = {"http": server.serves_http, "grpc": server.serves_grpc}[way]
        soon(serves)
        before = server.resident_mib
        peak: list[float] = []
        with watching(server, peak):
            if way == "http":
                flood_http(server.port)
            else:
                flood_grpc(server.grpc_port, ASK)
        assert max(peak) - before < MAX_MIB, f"{max(peak):.0f} MiB"
        soon(serves)


@contextlib.contextmanager
def watching(server: DoorProcess, peak: list[float]) -> Iterator[None]:
    """Note the memory of a server while something runs."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            peak.append(server.resident_mib)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        peak.append(server.resident_mib)


class Doors:
    """A gateway with both doors in this loop."""

    def __init__(self, gateway: Gateway, executor: Executor, server: GrpcGatewayServer) -> None:
        self.gateway = gateway
        self.executor = executor
        self.server = server
        self.port = int(server.url.rpartition(":")[2])

    def channel(self) -> Any:
        """Client with a connection of its own."""
        return aio.insecure_channel(f"127.0.0.1:{self.port}", options=[("grpc.use_local_subchannel_pool", 1)])


@contextlib.asynccontextmanager
async def doors(**settings: Any) -> Any:
    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
        **settings,
    )
    gateway = Gateway(service, executor)
    await gateway.start()
    server = GrpcGatewayServer(gateway.door, host="127.0.0.1", port=0)
    await server.start()
    try:
        yield Doors(gateway, executor, server)
    finally:
        await gateway.stop(grace_s=0.0, linger_s=0.0)
        await server.stop()


async def test_a_burst_over_grpc_is_answered_or_turned_away_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None is dropped: the least urgent are told when to come again, and all are counted."""
    count, channels, priorities = 3000, 6, (9, 0, -9)
    ended: dict[int, Counter[StatusCode | None]] = {priority: Counter() for priority in priorities}
    pushbacks: list[int] = []
    judged: list[tuple[int, float, bool]] = []  # priority, load, whether admitted
    refusal = Admission.refusal

    def noted(admission: Admission, now: float, priority: int, allowed: float | None = None) -> float | None:
        load = admission.effective_load(now, allowed)
        again = refusal(admission, now, priority, allowed)
        judged.append((priority, load, again is None))
        return again

    monkeypatch.setattr(Admission, "refusal", noted)
    async with doors(limits=Limits(requests=16, always=8)) as running, contextlib.AsyncExitStack() as stack:
        stubs = [ask_of(await stack.enter_async_context(running.channel())) for _ in range(channels)]
        request = Request(json=json.dumps({"text": "a", "sleep_ms": 100}))

        async def ask(number: int) -> None:
            priority = priorities[number // channels % 3]  # each connection has all of them
            try:
                await stubs[number % channels](
                    request, timeout=60.0, metadata=(("kw-priority", str(priority)),)
                )
            except aio.AioRpcError as error:
                ended[priority][error.code()] += 1
                trailing = dict(error.trailing_metadata() or ())
                pushbacks.append(int(trailing["grpc-retry-pushback-ms"]))
            else:
                ended[priority][None] += 1

        await asyncio.gather(*(ask(number) for number in range(count)))
        total = sum(ended.values(), Counter())
        assert total.keys() == {None, StatusCode.RESOURCE_EXHAUSTED}, total
        assert ended[9][None] > ended[-9][None], ended
        # Which arrivals find a low load is chance; at one load a more urgent one enters if another does.
        for low, high in ((-9, 0), (0, 9)):
            entered = max(load for priority, load, admitted in judged if priority == low and admitted)
            refused = min(load for priority, load, admitted in judged if priority == high and not admitted)
            assert entered < refused
        away = total[StatusCode.RESOURCE_EXHAUSTED]
        assert len(pushbacks) == away > 0 < min(pushbacks)
        assert running.gateway.door.answered == {200: total[None], 503: away}
        assert running.executor.status()["shed"] == away


@pytest.mark.parametrize("method", [ASK, CHECK, WATCH, REFLECT])
async def test_streams_without_a_message_do_not_close_the_door(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_messages, "MESSAGE_S", 6.0)  # an honest message on a busy machine takes less
    monkeypatch.setattr(incoming_messages, "MAX_AWAITED", 1500)
    async with doors() as running, running.channel() as channel, contextlib.AsyncExitStack() as stack:
        clients = [stack.enter_context(closing(Http2Client(running.port))) for _ in range(4)]
        opened = await asyncio.to_thread(lambda: [client.open(method, count=1000) for client in clients])
        for _ in range(20):
            assert (await ask_of(channel)(Request(json='{"text": "a"}'), timeout=20.0)).json
        messages = running.server._server._messages
        assert messages is not None

        def all_ended() -> bool:
            for client in clients:
                client.read()
            return all(
                client.gone or len(client.ended) == len(streams)
                for client, streams in zip(clients, opened, strict=True)
            )

        await until(all_ended)
        await until(lambda: messages.awaited == 0)


@pytest.mark.parametrize("takes", [WINDOW, 0])
async def test_streams_that_follow_the_health_are_limited(
    takes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest give way, and are told so if they take anything; the news of the end waits for none."""
    monkeypatch.setattr(standard_services, "MAX_WATCHES", 50)
    async with doors() as running, running.channel() as channel:
        standard = running.server._server._standard
        assert standard is not None
        with closing(Http2Client(running.port, takes=takes)) as client:
            streams = client.open(WATCH, count=400)
            for stream in streams:
                client.write(stream, b"\0\0\0\0\0", ends=True)

            def most_ended() -> bool:
                client.read()
                return len(client.ended) == len(streams) - 50

            if takes:
                await until(most_ended)
                assert client.ended.keys() == set(streams[:-50])
            else:
                await until(lambda: standard.health.watches == 50)
            assert (await ask_of(channel)(Request(json='{"text": "a"}'), timeout=20.0)).json
            assert standard.health.watches == 50
            await running.server.report_stopping()
            assert await channel.unary_unary(CHECK)(b"", timeout=20.0) == b"\x08\x02"
            standard.health.end_watches()
            await until(lambda: standard.health.watches == 0)


async def test_a_call_that_ends_without_a_message_is_told_so() -> None:
    async with doors() as running, running.channel() as channel:

        async def none() -> Any:
            return
            yield

        for method in (ASK, CHECK):
            with pytest.raises(aio.AioRpcError) as caught:
                await channel.stream_unary(method)(none(), timeout=PATIENCE_S)
            assert caught.value.code() is StatusCode.INVALID_ARGUMENT
            assert "no message" in (caught.value.details() or "")
        with pytest.raises(aio.AioRpcError) as caught:
            await channel.unary_unary(CHECK)(b"\xff", timeout=PATIENCE_S)
        assert caught.value.code() is StatusCode.INVALID_ARGUMENT


async def test_a_slow_message_gives_way_to_a_more_urgent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget has room for one message on its way: the less urgent sender is turned away."""
    async with doors() as running, contextlib.AsyncExitStack() as stack:
        running.gateway.door.budget.most = MESSAGE + (64 << 10)
        client = stack.enter_context(closing(Http2Client(running.port)))
        part = unfinished(MESSAGE)[:100_000]
        found: dict[int, int] = {}
        for priority in (0, -5, 5):
            (stream,) = client.open(ASK, ("kw-priority", str(priority)))
            found[priority] = stream
            client.write(stream, part)

            def turned_away(count: int = len(found) - 1) -> bool:
                client.read()
                return len(client.ended) == count

            await until(turned_away)
            await asyncio.sleep(0.1)  # long enough for the charge of this one
        assert client.ended.keys() == {found[-5], found[0]}
        assert all(b"calls together are too long" in block for block in client.ended.values()), client.ended
        assert running.gateway.door.answered == {503: 2}
        assert running.executor.status()["shed"] == 2
        await until(lambda: running.gateway.door.budget.taken == 0)


async def test_slow_messages_that_hold_the_whole_budget_leave_room_for_answers() -> None:
    """Bytes of an answer that is there go before those that are only reserved."""
    async with doors() as running, running.channel() as channel, contextlib.AsyncExitStack() as stack:
        budget = running.gateway.door.budget
        budget.most = 2 * (MESSAGE + (64 << 10))
        client = stack.enter_context(closing(Http2Client(running.port)))
        for stream in client.open(ASK, count=2):
            client.write(stream, unfinished(MESSAGE)[:100_000])
        await until(lambda: budget.left == 0)
        assert (await ask_of(channel)(Request(json='{"text": "a"}'), timeout=PATIENCE_S)).json

        def one_gave_way() -> bool:
            client.read()
            return len(client.ended) == 1

        await until(one_gave_way)


def test_a_message_of_many_unknown_fields_is_refused_early() -> None:
    """Two million fields took a second of the loop; a few that a version to come may add are skipped."""
    field = b"\x50\x01"
    assert payload_of(payload_message(b"x") + field * 500) == b"x"
    many = field * (2 * MIB)
    with pytest.raises(InputError, match=f"more than {MAX_FIELDS} fields"):
        payload_of(payload_message(b"x") + many)


@pytest.mark.parametrize("files", [1024, 8192, 65_536])
def test_both_doors_share_the_connections(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    assert 2 * max_connections(doors=2) <= SHARE_OF_FILES * files
    assert max_connections(doors=2) <= max_connections()


def test_full_doors_leave_room_for_calls_to_replicas() -> None:
    with ExitStack() as stack:
        replicas = [
            (stage, stack.enter_context(replica_process(stage))) for stage in ("first", "middle", "last")
        ]
        options = [
            part for stage, each in replicas for part in ("--replica", f"{stage}=127.0.0.1:{each.port}")
        ]
        gateway = stack.enter_context(gateway_process(*options, files=300, local=False))
        soon(gateway.serves_http)
        held: list[socket.socket] = []
        with contextlib.suppress(OSError):
            for port in (gateway.port, gateway.grpc_port):
                held.extend(  # one by one, so that those before a refused one are kept
                    stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(300)
                )
        time.sleep(1.0)  # all of them are accepted, or refused
        told = ask_on(held[0])
        assert told.startswith(b"HTTP/1.1 200"), told[:300]


def ask_on(sock: socket.socket) -> bytes:
    """Answer to a request on a connection that is open already."""
    body = b'{"text": "a"}'
    sock.settimeout(20.0)
    sock.sendall(
        b"POST /v1/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    return sock.recv(65_536)
