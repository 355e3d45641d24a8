"""Outage of an optional stage: the time that it costs requests, and how soon the stage is used again."""

from __future__ import annotations

import asyncio
import random
from statistics import mean

import pytest

from kwiken.model.service.stage import Stage
from kwiken.runtime.decisions.choice.picker import LAST_BACKOFF_S, Picker
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, executor_of, replicas_of, service_of

SERVICE_STAGES = (Stage(name="a"), Stage(name="m", after=("a", "spare")))
RATE_PER_S = 20.0
PAUSED_S = 30.0


class Pause:
    """Replicas of one stage that answer after 10 ms, except while they are paused."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.over.set()

    async def behave(self, _: Replica, call: Call) -> str:
        await asyncio.sleep(0.01)
        if call.stage == "spare":
            await self.over.wait()
        return "ok"


async def ask(executor: Executor, seconds: float) -> list[tuple[float, bool]]:
    """Duration of each request, in order of arrival, and whether its answer lacks the stage."""
    loop = asyncio.get_running_loop()

    async def one() -> tuple[float, bool]:
        began = loop.time()
        answer = await executor.run("q")
        return loop.time() - began, answer.partial

    async with asyncio.TaskGroup() as group:
        tasks = []
        for _ in range(round(seconds * RATE_PER_S)):
            tasks.append(group.create_task(one()))
            await asyncio.sleep(1 / RATE_PER_S)
    return [task.result() for task in tasks]


@pytest.mark.parametrize("idempotent", [True, False])
def test_requests_go_on_without_an_optional_stage_that_hangs(idempotent: bool) -> None:
    stage = Stage(name="spare", optional=True, idempotent=idempotent, replicas=3, timeout_ms=4000)
    service = service_of(SERVICE_STAGES[0], stage, SERVICE_STAGES[1])

    async def main() -> None:
        pause = Pause()
        executor = executor_of(service, Script(pause.behave))
        before = await ask(executor, 2.0)
        assert not any(partial for _, partial in before)
        pause.over.clear()
        meanwhile = await ask(executor, PAUSED_S)
        assert all(partial for _, partial in meanwhile)
        first, rest = meanwhile[: round(5 * RATE_PER_S)], meanwhile[round(5 * RATE_PER_S) :]
        assert max(took for took, _ in first) <= 4.1, "at most the stage's timeout, until it is found out"
        assert mean(took for took, _ in rest) < 0.05
        assert max(took for took, _ in rest) < 0.2, "a trial is short"
        pause.over.set()
        after = await ask(executor, LAST_BACKOFF_S + 2.0)
        assert not any(partial for _, partial in after[round((LAST_BACKOFF_S + 0.5) * RATE_PER_S) :])

    simulate(main)


def test_a_stage_that_is_not_optional_is_tried_all_the_same() -> None:
    service = service_of(Stage(name="spare", idempotent=True, timeout_ms=1000))

    async def main() -> None:
        pause = Pause()
        script = Script(pause.behave)
        executor = executor_of(service, script)
        await executor.run("q")
        pause.over.clear()
        for sent in range(2, 5):
            with pytest.raises(Exception, match="no answer from spare-0 within 1000 ms"):
                await executor.run("q")
            assert len(script.sent) == sent

    simulate(main)


def test_a_slow_replica_that_answers_is_not_given_up() -> None:
    picker = Picker(replicas_of("s", 2), random.Random(1))
    one, other = picker.targets
    tickets = {target.replica.id: target.take(0.0) for target in (one, other)}
    assert not picker.all_unresponsive(1.9, 2.0)
    assert picker.all_unresponsive(2.1, 2.0)
    later = other.take(0.5)
    picker.answered(other, later, 2.2, Reply("ok"))
    assert not picker.all_unresponsive(2.3, 2.0), "a call hangs, but its replica answers others"
    picker.failed(other, tickets[other.replica.id], 2.4)
    assert picker.all_unresponsive(6.0, 2.0)
    picker.answered(one, tickets[one.replica.id], 6.1, Reply("ok"))
    assert not picker.all_unresponsive(6.2, 2.0)
    slow = one.take(7.0)
    assert not picker.all_unresponsive(12.0, 2.0), "calls usually take long"
    assert slow in one.waiting
