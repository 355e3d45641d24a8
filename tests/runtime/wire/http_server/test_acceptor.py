"""Acceptor: accepts many connections at once, at every address, and again after file descriptors ran out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator

import pytest
import uvloop

from kwiken.base.errors import InputError
from kwiken.runtime.wire.http_server.acceptor import Acceptor, listen, reserve
from tests.support.runtime.waiting import PATIENCE_S

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
MANY = 200


@contextlib.contextmanager
def callers(port: int, count: int) -> Iterator[list[socket.socket]]:
    found = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    try:
        yield found
    finally:
        for caller in found:
            caller.close()


class Guest(asyncio.Protocol):
    """Protocol that counts its connections."""

    connected = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Guest.connected += 1
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        Guest.connected -= 1


@pytest.mark.parametrize("loop", LOOPS)
def test_waiting_connections_are_accepted_within_a_few_loop_turns(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        Guest.connected = 0
        acceptor = Acceptor(listen("127.0.0.1", 0), Guest)
        port = acceptor.port
        try:
            with callers(port, MANY):
                turns = 0
                while Guest.connected < MANY and turns < MANY:
                    await asyncio.sleep(0)
                    turns += 1
                assert turns <= 20
        finally:
            acceptor.close()
        for _ in range(100):
            if not Guest.connected:
                break
            await asyncio.sleep(0.02)
        with pytest.raises(ConnectionRefusedError), callers(port, 1):
            pass

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


class Scarce(socket.socket):
    """Listening socket without a file descriptor for the first few clients."""

    left = 3

    def accept(self) -> tuple[socket.socket, object]:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE if self.left % 2 else errno.ECONNABORTED, "not now")
        return super().accept()


@pytest.mark.parametrize("loop", LOOPS)
def test_without_file_descriptors_the_acceptor_waits_and_logs_once(
    loop: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        Guest.connected = 0
        (plain,) = listen("127.0.0.1", 0)
        acceptor = Acceptor([Scarce(fileno=plain.detach())], Guest)
        try:
            with callers(acceptor.port, 5):
                for _ in range(200):
                    if Guest.connected == 5:
                        break
                    await asyncio.sleep(0.02)
                assert Guest.connected == 5
        finally:
            acceptor.close()
        await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert caplog.text.count("no more connections for now") == 1


def test_every_address_of_a_name_at_the_same_port() -> None:
    sockets = listen("localhost", 0)
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        assert {sock.family for sock in sockets} <= {socket.AF_INET, socket.AF_INET6}
        with pytest.raises(InputError, match="the port is in use"):
            listen("localhost", sockets[0].getsockname()[1])
    finally:
        for sock in sockets:
            sock.close()


def test_a_reserved_port_is_for_servers_that_share_it() -> None:
    reserved = reserve("localhost", 0)
    port = reserved[0].getsockname()[1]
    try:
        with pytest.raises(InputError, match="the port is in use"):
            listen("localhost", port)
        sharing = listen("localhost", port, shared=True)
        try:
            for sock in reserved:
                with socket.create_connection(sock.getsockname()[:2], timeout=PATIENCE_S):
                    pass
        finally:
            for sock in sharing:
                sock.close()
        with pytest.raises(ConnectionError):  # the reservation itself takes no connection
            socket.create_connection(reserved[0].getsockname()[:2], timeout=PATIENCE_S)
    finally:
        for sock in reserved:
            sock.close()


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(InputError, match=f"{host}:0: cannot listen here"):
        listen(host, 0)
