"""The race on real event loops: what interrupts and cancels must work there too. No time is asserted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from kwiken import Reissue
from runtime import Call, DeadlineError, Executor, Replica, SystemClock
from tests.support.replicas import Script, endow, one_stage, plan_of, replicas_of

LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def on(new_loop: NewLoop, main: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def executor_on(script: Script, **settings: Any) -> Executor:
    service = one_stage(**settings)
    executor = Executor(
        service,
        script,
        replicas={"s": replicas_of("s", 2)},
        clock=SystemClock(),
        rng=random.Random(1),
        control_share=0.0,
    )
    executor.apply(plan_of(service, {"s": Reissue(after_ms=2, fraction=0.5)}, budget=1.0))
    return executor


async def only_copies_answer(_: Replica, call: Call) -> str:
    if call.attempt == 0:
        await asyncio.get_running_loop().create_future()
    return "copy"


@LOOPS
def test_copies_win_over_primaries_that_never_answer(new_loop: NewLoop) -> None:
    async def main() -> None:
        script = Script(only_copies_answer)
        executor = executor_on(script)
        for _ in range(5):
            endow(executor)
            answers = await asyncio.gather(*(executor.run("q") for _ in range(10)))
            assert [answer.value for answer in answers] == ["copy"] * 10
        assert script.running == []
        assert len(asyncio.all_tasks()) == 1

    on(new_loop, main)


@LOOPS
def test_timeouts_and_cancels(new_loop: NewLoop) -> None:
    async def main() -> None:
        script = Script(lambda *_: asyncio.get_running_loop().create_future())
        executor = executor_on(script, timeout_ms=20)
        with pytest.raises(DeadlineError):
            await executor.run("q")
        runs = [asyncio.ensure_future(executor.run("q")) for _ in range(20)]
        await asyncio.sleep(0.005)
        for run in runs:
            run.cancel()
        await asyncio.wait(runs)
        assert all(run.cancelled() for run in runs)
        assert script.running == []
        assert executor.status()["inside"] == 0
        assert len(asyncio.all_tasks()) == 1

    on(new_loop, main)
