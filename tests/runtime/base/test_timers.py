"""Timers that are rounded up: a caller that waits for a moment does not keep the loop busy until it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest
import uvloop
from hypothesis import given, strategies as st

from kwiken.runtime.base.event_loop import call_after

LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def delay_of(asked_s: float) -> float:
    loop = Mock(spec=asyncio.AbstractEventLoop)
    call_after(loop, asked_s, print)
    (call,) = loop.call_later.call_args_list
    delay_s: float = call.args[0]
    return delay_s


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(0.0, 0), (1e-9, 1), (0.4, 1), (1.0, 1), (1.1, 2), (5.0, 5)]
)
def test_delays_are_rounded_up_to_milliseconds(asked_ms: float, given_ms: int) -> None:
    assert delay_of(asked_ms / 1e3) == pytest.approx(given_ms / 1e3, abs=1e-12)


@given(st.floats(1e-6, 3600.0))
def test_no_delay_is_shortened_or_lengthened_by_more_than_a_tick(asked_s: float) -> None:
    assert -1e-8 <= delay_of(asked_s) - asked_s <= 0.001 + 1e-8


@LOOPS
@pytest.mark.parametrize("asked_ms", [0.3, 0.45, 1.4, 2.3])
def test_waiting_for_a_moment_takes_few_timers(new_loop: NewLoop, asked_ms: float) -> None:
    async def timers() -> int:
        loop = asyncio.get_running_loop()
        reached = loop.create_future()
        due = time.monotonic() + asked_ms / 1e3
        count = 0

        def fired() -> None:
            nonlocal count
            count += 1
            left = due - time.monotonic()
            if left <= 0:
                reached.set_result(None)
            else:
                call_after(loop, left, fired)

        call_after(loop, asked_ms / 1e3, fired)
        await reached
        return count

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert max(runner.run(timers()) for _ in range(20)) <= 3
