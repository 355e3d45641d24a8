"""Virtual time: what the clock does, and what a test must not leave behind."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kwiken.testing.virtual_loop import DeadlockError, virtual_time


def test_a_wait_of_a_day_takes_no_time_and_is_exact() -> None:
    @virtual_time
    async def main(factor: float) -> float:
        """A wait."""
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(86_400 * factor)
        return asyncio.get_running_loop().time() - began

    assert main.__doc__ == "A wait."
    assert main(0.5) == pytest.approx(43_200)


def test_the_clock_stands_still_while_a_thread_works() -> None:
    entered, released = threading.Event(), threading.Event()

    @virtual_time
    async def main() -> tuple[float, list[str]]:
        events: list[str] = []

        def work() -> None:
            entered.set()
            assert released.wait(60)

        async def tick() -> None:
            await asyncio.sleep(0.001)
            events.append("tick")

        began = asyncio.get_running_loop().time()
        ticking = asyncio.ensure_future(tick())
        working = asyncio.ensure_future(asyncio.to_thread(work))
        await asyncio.sleep(0)
        assert entered.wait(60)
        threading.Timer(0.05, released.set).start()
        await working
        took = asyncio.get_running_loop().time() - began
        await ticking
        return took, events

    assert main() == (0.0, ["tick"])


def test_a_wait_for_what_never_comes_is_an_error_not_a_hang() -> None:
    @virtual_time
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match="nothing will ever happen"):
        main()


def test_sockets_are_refused() -> None:
    @virtual_time
    async def main() -> None:
        await asyncio.open_connection("127.0.0.1", 9)

    with pytest.raises(RuntimeError, match="virtual time has no sockets"):
        main()


def test_tasks_and_timers_that_outlive_the_test_are_named() -> None:
    @virtual_time
    async def leaves_a_task() -> None:
        leaves_a_task.task = asyncio.ensure_future(asyncio.sleep(9))  # type: ignore[attr-defined]  # kept alive

    @virtual_time
    async def leaves_a_timer() -> None:
        asyncio.get_running_loop().call_later(9, print)

    with pytest.raises(AssertionError, match="tasks outlived the test"):
        leaves_a_task()
    with pytest.raises(AssertionError, match="timers outlived the test"):
        leaves_a_timer()
