"""The race on real event loops: what interrupts and cancels must work there too. No time is asserted."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from kwiken.model.plan.plan import PartialPolicy
from kwiken.model.service.stage import Partial, Reissue, Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import DeadlineError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica
from tests.support.runtime.replicas import (
    Script,
    endow,
    executor_of,
    one_stage,
    plan_of,
    replicas_of,
    service_of,
)
from tests.support.runtime.waiting import until

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


# A loop that was delayed runs its timers before it reads pending data.


async def read(end: socket.socket, value: Any) -> Any:
    await asyncio.get_running_loop().sock_recv(end, 1)
    return value


@LOOPS
@pytest.mark.parametrize("came", [True, False])
def test_an_answer_that_came_while_the_loop_was_held_needs_no_copy(new_loop: NewLoop, came: bool) -> None:
    async def main() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        with near, far:
            script = Script(
                lambda _, call: read(near, "answer") if call.attempt == 0 else asyncio.sleep(0, "copy")
            )
            executor = executor_on(script)
            endow(executor)
            run = asyncio.ensure_future(executor.run("q"))
            await asyncio.sleep(0)
            if came:
                far.send(b"!")
            time.sleep(0.02)  # noqa: ASYNC251 - holds the loop, far beyond the copy's time
            answer = await run
            assert answer.value == ("answer" if came else "copy")
            assert executor.status()["stages"]["s"]["reissues"] == (0 if came else 1)

    on(new_loop, main)


@LOOPS
@pytest.mark.parametrize(("shards", "heard"), [(2, 1), (2, 0), (4, 1), (8, 0)])
def test_shards_that_came_while_the_loop_was_held_are_not_missing(
    new_loop: NewLoop, shards: int, heard: int
) -> None:
    async def main() -> None:
        pairs = [socket.socketpair() for _ in range(shards)]
        try:
            for near, _ in pairs:
                near.setblocking(False)
            service = service_of(Stage(name="f", fanout=shards), Stage(name="m", after=("f",)))
            script = Script(
                lambda _, call: (
                    read(pairs[call.shard][0], call.shard)
                    if call.stage == "f"
                    else asyncio.sleep(0, call.args[0])
                )
            )
            executor = executor_of(service, script, clock=SystemClock())
            cut = PartialPolicy(cutoff_ms=500.0, wait_ms=None, progress=1.0, loss=0.01)
            executor.apply(plan_of(service, partial={"f": cut}))
            run = asyncio.ensure_future(executor.run("q"))
            await until(lambda: len(script.of("f")) == shards)
            for _, far in pairs[:heard]:
                far.send(b"!")
            await until(lambda: sum(entry.end == "answered" for entry in script.of("f")) == heard)
            for _, far in pairs[heard:]:
                far.send(b"!")
            time.sleep(0.6)  # noqa: ASYNC251 - holds the loop, far beyond the cut-off
            answer = await run
            assert answer.value == Partial(tuple(range(shards)))
            assert not answer.partial
            assert executor.status()["stages"]["f"]["partial"] == {"stops": 0, "waits": 0}
        finally:
            for pair in pairs:
                for end in pair:
                    end.close()

    on(new_loop, main)
