"""Cancellation: the caller's reaches every attempt, the race's own never leaks out, no task is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue, Stage
from kwiken.runtime.base.errors import DeadlineError, LostError, RefusedError, UnavailableError
from kwiken.runtime.decisions.race import RESENDS
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import (
    Script,
    after,
    endow,
    executor_of,
    one_stage,
    plan_of,
    raising,
    service_of,
)

COPY_AT = 0.1


def no_calls_left(executor: Executor) -> None:
    for stage in executor.status()["stages"].values():
        assert all(replica["inflight"] == 0 for replica in stage["replicas"]), stage
    assert executor.status()["inside"] == 0


def hedged(script: Script, **settings: Any) -> Executor:
    """An executor of one stage that is reissued after 100 ms, with budget earned."""
    service = one_stage(**settings)
    executor = executor_of(service, script)
    executor.apply(plan_of(service, {"s": Reissue(after_ms=COPY_AT * 1000, fraction=0.05)}))
    endow(executor)
    return executor


def test_caller_gives_up_on_the_primary() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(10.0))
        executor = hedged(script)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await executor.run("x")
        assert [entry.end for entry in script.sent] == ["cancelled"]
        no_calls_left(executor)

    simulate(main)


def test_caller_gives_up_on_primary_and_copy() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(10.0))
        executor = hedged(script)
        task = asyncio.ensure_future(executor.run("x"))
        await asyncio.sleep(0.2)
        assert len(script.running) == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [entry.end for entry in script.sent] == ["cancelled", "cancelled"]
        no_calls_left(executor)

    simulate(main)


def test_copy_that_wins_leaves_the_callers_task_uncancelled() -> None:
    async def main() -> None:
        script = Script(lambda _, call: after(0.01 if call.attempt else 10.0, call.attempt))
        executor = hedged(script)
        task = asyncio.current_task()
        assert task is not None
        answer = await executor.run("x")
        assert answer.value == 1
        assert task.cancelling() == 0
        await asyncio.sleep(1.0)  # a cancellation left over would be raised here
        assert [entry.end for entry in script.sent] == ["cancelled", "answered"]
        no_calls_left(executor)

    simulate(main)


def test_timeout_leaves_the_callers_task_uncancelled() -> None:
    async def main() -> None:
        service = one_stage(idempotent=False, timeout_ms=300)
        executor = executor_of(service, Script(lambda *_: after(10.0)))
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(DeadlineError, match=r"'s'.*300 ms"):
            await executor.run("x")
        assert task.cancelling() == 0
        await asyncio.sleep(1.0)
        no_calls_left(executor)

    simulate(main)


def test_callers_cancel_in_the_same_tick_as_the_copys_win_is_not_lost() -> None:
    """Both cancellations reach the task as one error; the caller's must survive."""

    async def main() -> None:
        script = Script(lambda _, call: after(0.05 if call.attempt else 10.0, call.attempt))
        executor = hedged(script)
        for early in (False, True):
            task = asyncio.ensure_future(executor.run("x"))
            moment = asyncio.get_running_loop().time() + COPY_AT + 0.05
            if early:  # before the copy's task wakes
                asyncio.get_running_loop().call_at(moment, task.cancel)
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(0.12)
                asyncio.get_running_loop().call_at(moment, task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await task
            no_calls_left(executor)

    simulate(main)


def test_task_that_was_cancelled_before_can_still_run_requests() -> None:
    """A task that runs a request while it unwinds from a cancellation has a count above 0 all along."""

    async def main() -> None:
        script = Script(lambda _, call: after(0.01 if call.attempt else 10.0, call.attempt))
        executor = hedged(script)
        seen = []

        async def unwinding() -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                seen.append((await executor.run("x")).value)
                raise

        task = asyncio.ensure_future(unwinding())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [1]
        no_calls_left(executor)

    simulate(main)


def test_request_within_the_callers_own_timeout() -> None:
    async def main() -> None:
        script = Script(lambda _, call: after(0.01 if call.attempt else 10.0, call.attempt))
        executor = hedged(script)
        async with asyncio.timeout(5.0):
            assert (await executor.run("x")).value == 1
        async with asyncio.timeout(5.0), asyncio.TaskGroup() as group:
            runs = [group.create_task(executor.run("x")) for _ in range(5)]
        assert [run.result().value for run in runs] == [1] * 5
        no_calls_left(executor)

    simulate(main)


def test_primary_that_swallows_its_cancellation_loses_all_the_same() -> None:
    async def stubborn(_: Replica, call: Call) -> Any:
        if call.attempt:
            return await after(0.01, "copy")
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
        return "primary"

    async def main() -> None:
        script = Script(stubborn)
        executor = hedged(script)
        task = asyncio.current_task()
        assert task is not None
        assert (await executor.run("x")).value == "copy"
        assert task.cancelling() == 0
        await asyncio.sleep(1.0)
        no_calls_left(executor)

    simulate(main)


def test_primary_that_turns_its_cancellation_into_an_error_loses_all_the_same() -> None:
    async def sore(_: Replica, call: Call) -> Any:
        if call.attempt:
            return await after(0.01, "copy")
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            raise LostError("connection closed") from None
        return "primary"

    async def main() -> None:
        executor = hedged(Script(sore))
        task = asyncio.current_task()
        assert task is not None
        assert (await executor.run("x")).value == "copy"
        assert task.cancelling() == 0
        await asyncio.sleep(1.0)
        no_calls_left(executor)

    simulate(main)


def test_loser_that_is_slow_to_end_is_waited_for() -> None:
    async def slow_to_end(_: Replica, call: Call) -> Any:
        if not call.attempt:
            return await after(0.2, "primary")
        try:
            await asyncio.sleep(10.0)
        finally:
            await asyncio.sleep(0.3)
        return "copy"

    async def main() -> None:
        script = Script(slow_to_end)
        executor = hedged(script)
        assert (await executor.run("x")).value == "primary"
        assert script.running == []
        no_calls_left(executor)

    simulate(main)


def test_caller_cancels_while_a_loser_ends() -> None:
    async def slow_to_end(_: Replica, call: Call) -> Any:
        if not call.attempt:
            return await after(0.2, "primary")
        try:
            await asyncio.sleep(10.0)
        finally:
            await asyncio.sleep(0.3)
        return "copy"

    async def main() -> None:
        script = Script(slow_to_end)
        executor = hedged(script)
        task = asyncio.ensure_future(executor.run("x"))
        await asyncio.sleep(0.3)  # the primary has won, the copy ends
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert script.running == []
        no_calls_left(executor)

    simulate(main)


def test_cancellation_from_within_the_transport_is_a_lost_call() -> None:
    """A future that the transport awaits is cancelled: not a cancellation of this task."""

    async def broken(_: Replica, call: Call) -> Any:
        if call.attempt:
            return "retry"
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, future.cancel)
        return str(await future)

    async def main() -> None:
        script = Script(broken)
        executor = hedged(script)
        assert (await executor.run("x")).value == "retry"
        no_calls_left(executor)

    simulate(main)


def test_copy_cancelled_before_its_first_step_leaves_no_books_open() -> None:
    """The primary answers in the very tick in which the copy is sent."""

    async def main() -> None:
        script = Script(lambda _, call: after(10.0 if call.attempt else COPY_AT))
        executor = hedged(script)
        for _ in range(5):
            await executor.run("x")
        no_calls_left(executor)

    simulate(main)


def diamond() -> Any:
    return service_of(
        Stage(name="a", idempotent=True, replicas=2),
        Stage(name="b", after=("a",), fanout=4, idempotent=True, replicas=2),
        Stage(name="c", after=("a",), idempotent=True, replicas=2),
        Stage(name="d", after=("b", "c"), idempotent=True, replicas=2),
    )


def test_caller_gives_up_in_the_middle_of_a_fan_out() -> None:
    async def main() -> None:
        script = Script(lambda _, call: after(0.01 if call.stage == "a" else 10.0))
        executor = executor_of(diamond(), script)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await executor.run("x")
        assert sorted(entry.end for entry in script.sent) == ["answered"] + ["cancelled"] * 5
        no_calls_left(executor)

    simulate(main)


def test_failed_stage_cancels_the_others() -> None:
    async def behave(_: Replica, call: Call) -> Any:
        if call.stage == "b" and call.shard == 2:
            await raising(ValueError("no such index"), 0.1)
        return await after(0.01 if call.stage == "a" else 10.0)

    async def main() -> None:
        script = Script(behave)
        executor = executor_of(diamond(), script)
        with pytest.raises(ValueError, match="no such index"):
            await executor.run("x")
        assert [entry.end for entry in script.of("c")] == ["cancelled"]
        assert script.running == []
        no_calls_left(executor)

    simulate(main)


def test_no_replica_at_all() -> None:
    async def main() -> None:
        executor = executor_of(one_stage(), Script(lambda *_: after(0.0)), replicas={"s": []})
        with pytest.raises(UnavailableError, match="'s'"):
            await executor.run("x")

    simulate(main)


fates = st.one_of(
    st.tuples(st.just("answer"), st.integers(0, 60)),
    st.tuples(st.just("refuse"), st.integers(0, 60)),
    st.tuples(st.just("lose"), st.integers(0, 60)),
    st.tuples(st.just("raise"), st.integers(0, 60)),
    st.tuples(st.just("hang"), st.just(0)),
    st.tuples(st.just("swallow"), st.integers(0, 60)),
)


def fate_of(call: Call, plans: list[list[tuple[str, int]]]) -> tuple[str, float]:
    plan = plans[call.shard % len(plans)]
    kind, hundredths = plan[min(call.attempt, len(plan) - 1)]
    return kind, hundredths / 100


async def meet(fate: tuple[str, float], call: Call) -> Any:
    """Behave as the random plan of attempts says."""
    kind, seconds = fate
    if kind == "swallow":
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(0.03)
    elif kind == "hang":
        await asyncio.sleep(100.0)
    elif kind != "answer":
        errors = {"refuse": RefusedError("full"), "lose": LostError("reset"), "raise": ValueError("bug")}
        await raising(errors[kind], seconds)
    else:
        await asyncio.sleep(seconds)
    return ("answer", call.shard, call.attempt)


@given(
    plans=st.lists(st.lists(fates, min_size=3, max_size=8), min_size=1, max_size=3),
    cancels=st.lists(st.integers(0, 120), max_size=2),
    copies=st.integers(1, 3),
    shards=st.integers(1, 3),
)
def test_whatever_happens_nothing_leaks_and_only_the_callers_cancel_cancels(
    plans: list[list[tuple[str, int]]], cancels: list[int], copies: int, shards: int
) -> None:
    """Random attempts (times on a coarse grid, so that many things happen in one tick) and random cancels."""

    async def main() -> None:
        script = Script(
            lambda _, call: (
                meet(fate_of(call, plans), call) if call.stage == "s" else after(0.0, call.args[0])
            )
        )
        executor = executor_of(fated_service(shards), script)
        policy = Reissue(after_ms=100, fraction=0.5, copies=copies)
        executor.apply(plan_of(fated_service(shards), {"s": policy}, budget=0.5))
        endow(executor)
        task = asyncio.ensure_future(executor.run("x"))
        cancelled: list[bool] = []
        call_later = asyncio.get_running_loop().call_later
        timers = [call_later(moment / 100, lambda: cancelled.append(task.cancel())) for moment in cancels]
        await asyncio.wait([task])
        for timer in timers:
            timer.cancel()
        if task.cancelled():
            assert any(cancelled), "cancelled out of nowhere"
        elif task.exception() is None:
            answer = task.result().value
            values: tuple[Any, ...] = answer.values if isinstance(answer, Partial) else (answer,)
            assert all(value[0] == "answer" and value[1] == shard for shard, value in enumerate(values))
            assert task.cancelling() == sum(cancelled) == 0
        assert script.running == []
        no_calls_left(executor)
        for shard in range(shards):
            assert sum(entry.call.shard == shard for entry in script.of("s")) <= 1 + copies + 1 + RESENDS

    simulate(main)


def fated_service(shards: int) -> Service:
    return service_of(
        Stage(name="s", replicas=4, fanout=shards, idempotent=True, timeout_ms=900),
        Stage(name="t", after=("s",)),
    )
