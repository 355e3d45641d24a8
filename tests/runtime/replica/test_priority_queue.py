"""Priority queue of a replica's calls."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.decisions.lines.request_lines import SECONDS_PER_LEVEL
from kwiken.runtime.replica.priority_queue import CallQueue, DisplacedError
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.waiting import until

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
try:
    import uvloop
except ImportError:
    pass
else:
    LOOPS.append(uvloop.new_event_loop)


@given(calls=st.lists(st.tuples(st.floats(0, 5), st.integers(-9, 9)), min_size=1, max_size=20))
def test_of_those_that_wait_the_most_urgent_begins(calls: list[tuple[float, int]]) -> None:
    async def main() -> None:
        queue = CallQueue()
        began: list[int] = []

        async def call(number: int) -> None:
            await queue.take(*calls[number])
            began.append(number)

        await asyncio.gather(*(call(number) for number in range(len(calls))))
        assert began == sorted(
            range(len(calls)), key=lambda n: (calls[n][0] - SECONDS_PER_LEVEL * calls[n][1], n)
        )

    simulate(main)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_call_that_comes_while_a_handler_holds_the_loop_begins_next(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Over sockets: urgent calls that a busy loop has not read yet overtake calls in the queue."""

    async def main() -> None:
        queue = CallQueue()
        began: list[str] = []
        tasks: list[asyncio.Task[None]] = []
        opened: list[Any] = []
        sent = asyncio.Event()

        async def call(name: str, priority: int) -> None:
            await queue.take(time.monotonic(), priority)
            began.append(name)
            if name == "n0":
                client.sendall(b"u")
            time.sleep(0.001)  # noqa: ASYNC251 - a handler that works

        class Reader(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                opened.append(transport)

            def data_received(self, data: bytes) -> None:
                assert data == b"u"
                tasks.append(asyncio.ensure_future(call("urgent", 1)))
                sent.set()

        server = await asyncio.get_running_loop().create_server(Reader, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname()[:2])
        await until(lambda: opened)
        tasks += [asyncio.ensure_future(call(f"n{number}", 0)) for number in range(6)]
        await asyncio.wait_for(sent.wait(), 10)
        await asyncio.gather(*tasks)
        client.close()
        opened[0].abort()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)  # the loop closes the socket in its next iterations
        assert began[0] == "n0"
        assert began[1] == "urgent"

    loop = new_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_handlers_that_wait_run_at_once() -> None:
    async def main() -> None:
        queue = CallQueue()
        inside = most = 0

        async def call() -> None:
            nonlocal inside, most
            await queue.take(0.0, 0)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(1.0)
            inside -= 1

        await asyncio.gather(*(call() for _ in range(50)))
        assert most == 50

    simulate(main)


def test_a_cancelled_call_leaves_the_queue_and_delays_no_other() -> None:
    async def main() -> None:
        queue = CallQueue()
        began: list[int] = []

        async def call(number: int) -> None:
            await queue.take(float(number), 0)
            began.append(number)

        tasks = [asyncio.ensure_future(call(number)) for number in range(4)]
        await asyncio.sleep(0)
        assert len(queue) == 4
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        late = asyncio.ensure_future(call(9))
        await asyncio.sleep(0)
        late.cancel()  # it was about to start
        await asyncio.gather(late, return_exceptions=True)
        await call(10)
        assert began == [1, 3, 10]

    simulate(main)


def test_a_call_that_comes_to_an_idle_queue_begins_one_iteration_later() -> None:
    async def main() -> None:
        queue = CallQueue()
        task = asyncio.ensure_future(queue.take(0.0, 0))
        await asyncio.sleep(0)
        assert not task.done(), "its client may have disconnected, and a more urgent call may follow"
        await asyncio.sleep(0)
        assert task.done()

    simulate(main)


def test_a_call_that_is_displaced_and_cancelled_at_once_leaves_no_unread_error() -> None:
    async def main() -> None:
        unread: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: unread.append(about))
        queue = CallQueue()
        task = asyncio.ensure_future(queue.take(0.0, 0))
        await asyncio.sleep(0)
        assert queue.displace(0.0, 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        del task
        gc.collect()
        assert not unread
        await queue.take(1.0, 0)  # the queue goes on

    simulate(main)


def test_the_least_urgent_gives_way() -> None:
    async def main() -> None:
        queue = CallQueue()
        ends: dict[str, str] = {}

        async def call(name: str, came: float, priority: int) -> None:
            try:
                await queue.take(came, priority)
                ends[name] = "began"
            except DisplacedError:
                ends[name] = "displaced"

        tasks = [
            asyncio.ensure_future(call("early", 0.0, 0)),
            asyncio.ensure_future(call("low", 0.1, -1)),
            asyncio.ensure_future(call("high", 0.2, 1)),
        ]
        await asyncio.sleep(0)
        assert not queue.displace(0.3, -1), "the newcomer is the least urgent itself"
        assert queue.displace(0.3, 0)
        assert queue.displace(0.3, 1)
        assert not queue.displace(0.3, 1), "only the other urgent one is left, and it came first"
        await asyncio.gather(*tasks)
        assert ends == {"low": "displaced", "early": "displaced", "high": "began"}

    simulate(main)


def test_with_an_empty_queue_no_call_is_displaced() -> None:
    assert not CallQueue().displace(0.0, 9)
