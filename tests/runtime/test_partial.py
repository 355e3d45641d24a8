"""Partial answers under virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kwiken import (
    Partial,
    PartialPolicy,
    Stage,
)
from tests.support.replicas import Script, after, executor_of, plan_of, service_of
from tests.support.virtual import simulate

CUT = PartialPolicy(cutoff_ms=100.0, wait_ms=None, progress=1.0, loss=0.01)


def partial_run(policy: PartialPolicy, waits: list[float], **fan: Any) -> tuple[Any, float]:
    service = service_of(Stage(name="f", fanout=len(waits), **fan), Stage(name="m", after=("f",)))

    async def main() -> tuple[Any, float]:
        script = Script(
            lambda _, call: (
                after(waits[call.shard], call.shard) if call.stage == "f" else after(0.0, call.args[0])
            )
        )
        executor = executor_of(service, script)
        executor.apply(plan_of(service, partial={"f": policy}))
        start = asyncio.get_running_loop().time()
        answer = await executor.run("q")
        assert script.running == []
        return answer, asyncio.get_running_loop().time() - start

    return simulate(main)


def test_cut_off_answers_with_what_is_there() -> None:
    answer, took = partial_run(CUT, [0.01, 0.5, 0.02, 0.03])
    assert answer.value == Partial((0, None, 2, 3), 0.75)
    assert answer.partial
    assert answer.utility == 0.75
    assert took == pytest.approx(0.1)


def test_shards_that_are_not_waited_for_are_cancelled_at_once() -> None:
    service = service_of(Stage(name="f", fanout=2), Stage(name="m", after=("f",)))

    async def main() -> None:
        script = Script(lambda _, call: after(1.0 if call.stage == "m" or call.shard else 0.01))
        executor = executor_of(service, script)
        executor.apply(plan_of(service, partial={"f": CUT}))
        start = asyncio.get_running_loop().time()
        await executor.run("q")
        (late,) = [entry for entry in script.of("f") if entry.call.shard]
        assert late.end == "cancelled"
        assert late.ended == pytest.approx(start + 0.1)

    simulate(main)


def test_complete_answer_before_the_cut_off_is_whole() -> None:
    answer, took = partial_run(CUT, [0.01, 0.05, 0.02])
    assert answer.value == Partial((0, 1, 2), 1.0)
    assert not answer.partial
    assert took == pytest.approx(0.05)


def test_waits_only_so_long_after_enough_progress() -> None:
    policy = PartialPolicy(cutoff_ms=None, wait_ms=20.0, progress=0.5, loss=0.01)
    answer, took = partial_run(policy, [0.01, 0.03, 0.04, 0.9])
    assert answer.value.values == (0, 1, 2, None)
    assert took == pytest.approx(0.05)


def test_with_nothing_to_show_it_waits_for_the_first_shard() -> None:
    answer, took = partial_run(CUT, [0.4, 0.3, 0.9])
    assert answer.value.values == (None, 1, None)
    assert took == pytest.approx(0.3)


def test_stages_own_utility_counts() -> None:
    answer, _ = partial_run(
        CUT, [0.01, 0.5], utility=lambda partial: 0.9 if partial.values[0] is not None else 0.0
    )
    assert answer.value.utility == 0.9
    assert answer.utility == pytest.approx(0.9)


def test_utility_that_raises_falls_back_to_the_share(caplog: pytest.LogCaptureFixture) -> None:
    answer, _ = partial_run(CUT, [0.01, 0.5], utility=lambda partial: 1 / 0)
    assert answer.utility == 0.5
    assert "'f'" in caplog.text


def test_stage_without_a_partial_policy_waits_for_every_shard() -> None:
    service = service_of(Stage(name="f", fanout=2), Stage(name="m", after=("f",)))

    async def main() -> Any:
        script = Script(lambda _, call: after(2.0 * call.shard, call.args))
        return await executor_of(service, script).run("q")

    answer = simulate(main)
    assert answer.value[0].complete
    assert not answer.partial
