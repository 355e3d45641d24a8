"""Settings of attempts under virtual time: following delays, limits of body size, time-outs, acceptable answers."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kwiken.model.service.stage import Following, Reissue
from kwiken.runtime.base.errors import AllFailedError, LostError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, endow, executor_of, one_stage, plan_of, raising

CALLS = 2000
MEAN_S = 0.01
P99_MS = 46.05  # of exponential latencies with that mean
FOLLOW = Following(quantile=0.99, least_ms=P99_MS / 2, most_ms=P99_MS * 8)


def copies_at(times: float, policy: Reissue) -> int:
    """Copies of 2,000 calls that all take so many times as long as when the policy was made."""
    draw = random.Random(7)

    async def behave(_: Replica, __: Call) -> Any:
        await asyncio.sleep(draw.expovariate(1 / (times * MEAN_S)))
        return "ok"

    service = one_stage(replicas=4)

    async def main() -> int:
        executor = executor_of(service, Script(behave))
        executor.apply(plan_of(service, {"s": policy}))
        for _ in range(CALLS):
            await executor.run("q")
        return int(executor.status()["stages"]["s"]["reissues"])

    return simulate(main)


def test_a_following_delay_copies_no_more_where_all_calls_take_three_times_as_long() -> None:
    fixed = Reissue(after_ms=P99_MS, fraction=0.01)
    follow = Reissue(after_ms=P99_MS, fraction=0.01, follow=FOLLOW)
    usual = copies_at(1.0, fixed)
    assert copies_at(3.0, fixed) > 2 * usual
    assert copies_at(3.0, follow) <= 1.5 * CALLS * 0.01 + 24  # those by which it learns that calls are slow


def one_call(
    script: Script, policy: Reissue | None = None, **settings: Any
) -> tuple[Any, Executor, list[float]]:
    """One request to a stage with these settings: its answer, and when its attempts were sent."""
    service = one_stage(replicas=4, **settings)

    async def main() -> tuple[Any, Executor, list[float]]:
        executor = executor_of(service, script)
        if policy is not None:
            executor.apply(plan_of(service, {"s": policy}))
        endow(executor)
        for state in executor.states.values():
            state.retries.earn()
        began = asyncio.get_running_loop().time()
        answer = await executor.run("q")
        return answer.value, executor, [round(each.at - began, 3) for each in script.sent]

    return simulate(main)


@pytest.mark.parametrize(("limit", "sent"), [(100, 2), (99, 1)])
def test_a_call_whose_body_is_too_large_gets_no_copy(limit: int, sent: int) -> None:
    async def behave(_: Replica, call: Call) -> Any:
        call.sent_bytes = 100
        await asyncio.sleep(1.0 if call.attempt == 0 else 0.0)
        return "ok"

    policy = Reissue(after_ms=100, fraction=0.1, max_body_bytes=limit)
    _, _, moments = one_call(Script(behave), policy)
    assert len(moments) == sent


def test_an_attempt_that_takes_too_long_has_failed_and_its_call_is_sent_once_more() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return asyncio.sleep(10 if call.attempt == 0 else 0.01, "ok")

    script = Script(behave)
    value, executor, moments = one_call(script, attempt_timeout_ms=200)
    assert (value, moments) == ("ok", [0.0, 0.2])
    assert script.sent[0].end == "cancelled"
    assert executor.states["s"].retries.spent == 1


def test_if_all_attempts_take_too_long_the_error_says_so() -> None:
    script = Script(lambda _, __: asyncio.sleep(10, "ok"))
    with pytest.raises(AllFailedError) as caught:
        one_call(script, attempt_timeout_ms=200)
    assert "crash" not in str(caught.value)
    for error in caught.value.exceptions:
        assert "no answer within the attempt_timeout_ms of 200" in str(error)
    assert len(script.sent) == 2


def test_a_copy_goes_on_when_the_first_attempt_took_too_long() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return asyncio.sleep(10 if call.attempt == 0 else 0.15, call.attempt)

    value, _, moments = one_call(Script(behave), Reissue(after_ms=100, fraction=0.1), attempt_timeout_ms=200)
    assert (value, moments) == (1, [0.0, 0.1])


def test_a_caller_may_cancel_an_attempt_with_a_time_out() -> None:
    service, script = one_stage(attempt_timeout_ms=500), Script(lambda _, __: asyncio.sleep(10, "ok"))

    async def main() -> None:
        executor = executor_of(service, script)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await executor.run("q")

    simulate(main)
    assert [each.end for each in script.sent] == ["cancelled"]


def test_an_answer_that_is_not_acceptable_does_not_win() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return asyncio.sleep(1.0, "whole") if call.attempt == 0 else asyncio.sleep(0.0, "")

    value, _, moments = one_call(Script(behave), Reissue(after_ms=100, fraction=0.1), accept=bool)
    assert (value, moments) == ("whole", [0.0, 0.1])


def test_a_call_without_an_acceptable_answer_is_sent_once_more() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return asyncio.sleep(0.01, ["", "whole"][call.attempt])

    value, executor, moments = one_call(Script(behave), accept=bool)
    assert (value, moments) == ("whole", [0.0, 0.01])
    assert executor.states["s"].retries.spent == 1


def test_without_an_acceptable_answer_the_first_one_is_returned() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return asyncio.sleep(0.01, call.attempt)

    value, _, _ = one_call(Script(behave), accept=lambda _: False)
    assert value == 0


def test_an_answer_that_is_not_acceptable_is_better_than_an_error() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return asyncio.sleep(0.01, "") if call.attempt == 0 else raising(LostError("gone"))

    value, _, _ = one_call(Script(behave), accept=bool)
    assert value == ""


def test_an_error_of_the_judging_function_fails_the_call_and_says_so() -> None:
    def accept(_: Any) -> bool:
        raise KeyError("hits")

    with pytest.raises(Exception, match="accept: 'hits'"):
        one_call(Script(lambda _, __: asyncio.sleep(0.01, "ok")), accept=accept)
