"""Calls to replicas over TLS, by HTTP and gRPC: who is refused, and rotation under load."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kwiken.base.errors import KwikenError
from kwiken.runtime.base.errors import RefusedError
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.files import TlsFiles
from kwiken.runtime.wire.transport.base import Call, Replica
from tests.support.faults.authority import Authority
from tests.support.peers.protocols import call_of
from tests.support.runtime.waiting import PATIENCE_S, until
from tests.support.services.http import Ask, service

SIDES: dict[str, tuple[Any, Any]] = {
    "http": (ReplicaServer, FrameTransport),
}


@pytest.fixture(params=SIDES)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.asynccontextmanager
async def serving(protocol: str, tls: Certificates) -> AsyncIterator[Replica]:
    server = SIDES[protocol][0](service, "first", tls=tls)
    await server.start()
    try:
        yield Replica(id="r0", node="here", address=server.url)
    finally:
        await server.stop(grace_s=0.0)


def call() -> Call:
    return call_of("first", Ask(text="hi"))


async def ask(protocol: str, replica: Replica, files: TlsFiles | None) -> object:
    tls = Certificates(files) if files is not None else None
    async with SIDES[protocol][1](service, tls=tls) as transport:
        return (await transport.call(replica, call())).value


async def test_replicas_take_calls_of_their_authority_alone(protocol: str, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    gateway = ours.issue("gateway")
    stranger = msgspec.structs.replace(theirs.issue("gateway"), authorities=str(ours.file))
    expired = ours.issue("expired", days=-1)
    async with serving(protocol, Certificates(ours.issue("replica"))) as replica:
        assert await ask(protocol, replica, gateway) == Ask(text="hi")
        for files in (stranger, expired, None):
            with pytest.raises(KwikenError):
                await ask(protocol, replica, files)
        assert await ask(protocol, replica, gateway) == Ask(text="hi")


async def test_gateways_call_replicas_of_their_authority_and_name_alone(
    protocol: str, tmp_path: Path
) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    gateway = ours.issue("gateway")
    both = tmp_path / "both.pem"
    both.write_bytes(ours.file.read_bytes() + theirs.file.read_bytes())
    for files in (
        theirs.issue("replica"),
        ours.issue("expired", days=-1),
        ours.issue("elsewhere", names="DNS:elsewhere.test"),
    ):
        shown = msgspec.structs.replace(files, authorities=str(both))
        async with serving(protocol, Certificates(shown)) as replica:
            with pytest.raises(RefusedError):
                await ask(protocol, replica, gateway)
    named = msgspec.structs.replace(gateway, name="elsewhere.test")
    elsewhere = ours.issue("elsewhere", names="DNS:elsewhere.test")
    async with serving(protocol, Certificates(elsewhere)) as replica:
        assert await ask(protocol, replica, named) == Ask(text="hi")


async def test_a_plain_client_gets_one_line_and_holds_nothing_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours = Authority(tmp_path)
    files = ours.issue("gateway")
    async with serving("http", Certificates(ours.issue("replica"))) as replica:
        host, port = replica.address.removeprefix("http://").split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(50)]
        caplog.clear()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP/1.1 200" not in await reader.read(), "nothing is answered without TLS"
        writer.close()
        await until(lambda: bool(caplog.messages))
        assert caplog.messages == ["no connection over TLS: the client does not speak TLS"]
        assert await ask("http", replica, files) == Ask(text="hi")
        for one in silent:
            one.close()


async def test_at_the_limit_the_oldest_unfinished_handshake_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwiken.runtime.wire.http_server.acceptor.MAX_HANDSHAKES", 10)
    ours = Authority(tmp_path)
    files = ours.issue("gateway")
    async with serving("http", Certificates(ours.issue("replica"))) as replica:
        host, port = replica.address.removeprefix("http://").split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(25)]
        assert await ask("http", replica, files) == Ask(text="hi")
        closed = [asyncio.create_task(reader.read()) for reader, _ in silent[:15]]
        async with asyncio.timeout(PATIENCE_S):
            assert await asyncio.gather(*closed) == [b""] * 15
        for _, writer in silent:
            writer.close()


async def test_rotation_under_load_loses_nothing(protocol: str, tmp_path: Path) -> None:
    before, after = Authority(tmp_path / "before"), Authority(tmp_path / "after")
    both = tmp_path / "both.pem"
    both.write_bytes(before.file.read_bytes() + after.file.read_bytes())
    replica_files = msgspec.structs.replace(before.issue("replica"), authorities=str(both))
    gateway_files = msgspec.structs.replace(before.issue("gateway"), authorities=str(both))
    of_replica, of_gateway = Certificates(replica_files), Certificates(gateway_files)
    async with (
        serving(protocol, of_replica) as replica,
        SIDES[protocol][1](service, tls=of_gateway) as transport,
    ):
        stop = False
        answered = [0] * 4

        async def load(place: int) -> None:
            while not stop:
                assert (await transport.call(replica, call())).value == Ask(text="hi")
                answered[place] += 1
                await asyncio.sleep(0)

        running = [asyncio.create_task(load(place)) for place in range(len(answered))]

        async def more() -> None:
            wanted = [count + 20 for count in answered]
            await until(lambda: all(a >= b for a, b in zip(answered, wanted, strict=True)))

        await more()
        for authority, certificates, name in (
            (after, of_replica, "replica"),
            (after, of_gateway, "gateway"),
            (before, of_replica, "replica"),
            (before, of_gateway, "gateway"),
        ):
            authority.issue(name, into=certificates.files)
            assert certificates.refresh()
            await more()
        stop = True
        await asyncio.gather(*running)
    assert of_replica.version == of_gateway.version == 3


async def test_new_connections_get_the_new_certificate(protocol: str, tmp_path: Path) -> None:
    before, after = Authority(tmp_path / "before"), Authority(tmp_path / "after")
    both = tmp_path / "both.pem"
    both.write_bytes(before.file.read_bytes() + after.file.read_bytes())
    shown = Certificates(msgspec.structs.replace(before.issue("replica"), authorities=str(both)))
    old = before.issue("gateway")
    new = after.issue("gateway")
    async with serving(protocol, shown) as replica:
        assert await ask(protocol, replica, old) == Ask(text="hi")
        with pytest.raises(RefusedError):
            await ask(protocol, replica, new)
        after.issue("replica", into=shown.files)
        assert shown.refresh()
        assert await ask(protocol, replica, new) == Ask(text="hi")
        with pytest.raises(RefusedError):
            await ask(protocol, replica, old)
