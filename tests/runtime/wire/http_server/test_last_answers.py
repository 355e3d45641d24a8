"""Last answers: read in full by clients that are still sending, and limited in number and time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from kwiken.runtime.wire.http_server.acceptor import Acceptor, ConnectionLimit, listen
from kwiken.runtime.wire.http_server.last_answers import LastAnswers
from tests.support.runtime.waiting import PATIENCE_S, until

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
ANSWER = b"no room"


async def said_to(port: int, sent: bytes) -> bytes:
    """Bytes that a client reads which sends first and is slow."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        await asyncio.sleep(0.1)
        writer.write(sent)
        await asyncio.sleep(0.1)
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_client_that_is_still_sending_reads_the_last_answer(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        last_answers = LastAnswers()
        acceptor = Acceptor(
            listen("127.0.0.1", 0), lambda: ConnectionLimit(lambda: None, last_answers, ANSWER)
        )
        answers = await asyncio.gather(*(said_to(acceptor.port, b"x" * 200_000) for _ in range(5)))
        assert answers == [ANSWER] * 5
        await until(lambda: not len(last_answers))
        acceptor.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_clients_that_stay_after_the_last_answer_are_few_and_closed_in_time(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        last_answers = LastAnswers(most=3, linger_s=0.5)
        acceptor = Acceptor(
            listen("127.0.0.1", 0), lambda: ConnectionLimit(lambda: None, last_answers, ANSWER)
        )
        callers = [socket.create_connection(("127.0.0.1", acceptor.port)) for _ in range(20)]
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert len(last_answers) <= 3
        await until(lambda: not len(last_answers))
        for caller in callers:
            assert caller.recv(100) == ANSWER
            caller.close()
        acceptor.close()
        await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
