"""Several copies of one call under virtual time: when each is sent, and that the request's budget pays for all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kwiken.model.service.stage import Reissue
from kwiken.runtime.base.errors import AllFailedError, LostError
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, endow, executor_of, one_stage, plan_of, raising


def sent_at(script: Script, copies: int, *, replicas: int = 5) -> list[float]:
    """Moments, from the start of a request, at which its attempts were sent."""
    service = one_stage(replicas=replicas, timeout_ms=60_000.0)

    async def main() -> list[float]:
        executor = executor_of(service, script)
        executor.apply(plan_of(service, {"s": Reissue(after_ms=100, copies=copies, fraction=0.1)}))
        endow(executor)
        began = asyncio.get_running_loop().time()
        await executor.run("q")
        return [round(each.at - began, 3) for each in script.sent]

    return simulate(main)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_call_of_a_service_of_one_stage_gets_all_its_copies(copies: int) -> None:
    async def behave(_: Replica, call: Call) -> Any:
        await asyncio.sleep(10 if call.attempt < copies else 0)
        return "ok"

    assert sent_at(Script(behave), copies) == [0.0, 0.1, 0.2, 0.3][: copies + 1]


def test_a_copy_that_fails_at_once_brings_the_next_one_forward() -> None:
    def behave(_: Replica, call: Call) -> Any:
        if call.attempt == 0:
            return asyncio.sleep(10, "slow")
        return raising(LostError("gone"), 0.01) if call.attempt < 3 else asyncio.sleep(0, "ok")

    assert sent_at(Script(behave), 4) == [0.0, 0.1, 0.11, 0.12]


def test_copies_that_all_fail_leave_the_primary_alone() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return asyncio.sleep(1, "slow") if call.attempt == 0 else raising(LostError("gone"))

    script = Script(behave)
    assert len(sent_at(script, 3)) == 4
    assert script.sent[0].end == "answered"


def test_all_attempts_failing_is_an_error_of_all() -> None:
    def behave(_: Replica, call: Call) -> Any:
        return raising(LostError(f"gone {call.attempt}"), 1 if call.attempt == 0 else 0)

    with pytest.raises(AllFailedError):
        sent_at(Script(behave), 2)
