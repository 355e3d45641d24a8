"""Partial answers in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from kwiken.base.errors import KwikenError
from kwiken.model.plan.ledger_terms import BURST_REQUESTS
from kwiken.model.plan.plan import PartialPolicy
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Stage
from kwiken.runtime.base.errors import HandlerError
from kwiken.runtime.engine.utility import MAX_JUDGED_SHARDS, MEAN_EVALUATIONS, worths_of
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, after, executor_of, plan_of, raising, service_of

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


def test_a_fan_out_without_any_answer_waits_for_the_first_shard() -> None:
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


# Budget of lost utility.


def fan_and_merge(width: int = 4, **fan: Any) -> Service:
    return service_of(Stage(name="f", fanout=width, **fan), Stage(name="m", after=("f",)))


def hung(waits: Sequence[float]) -> Script:
    """Shards with given durations; the merge answers with the shards that it got."""
    return Script(
        lambda _, call: (
            after(waits[call.shard], call.shard) if call.stage == "f" else after(0.0, call.args[0])
        )
    )


def test_a_fan_out_without_utility_budget_waits_for_all_shards() -> None:
    async def main() -> None:
        service = fan_and_merge()
        executor = executor_of(service, hung([0.01, 0.5, 0.02, 0.03]))
        executor.apply(plan_of(service, partial={"f": CUT}, utility_loss=0.0))
        start = asyncio.get_running_loop().time()
        answer = await executor.run("q")
        assert asyncio.get_running_loop().time() - start == pytest.approx(0.5)
        assert not answer.partial
        assert answer.value.complete
        assert executor.status()["stages"]["f"]["partial"] == {"stops": 0, "waits": 1}

    simulate(main)


def test_lost_utility_keeps_to_its_budget_over_any_ten_seconds_and_in_the_long_run() -> None:
    budget = 0.02

    async def main() -> None:
        service = fan_and_merge(8)
        executor = executor_of(service, hung([0.01] * 7 + [0.4]))
        executor.apply(plan_of(service, partial={"f": CUT}, utility_loss=budget))
        loop = asyncio.get_running_loop()
        ends: list[tuple[float, float]] = []

        async def one() -> None:
            answer = await executor.run("q")
            ends.append((loop.time(), 1.0 - answer.utility))

        tasks = []
        for _ in range(3000):
            tasks.append(asyncio.ensure_future(one()))
            await asyncio.sleep(0.02)
        await asyncio.gather(*tasks)
        burst = max(1.0, budget * BURST_REQUESTS)
        for opens in range(0, 60, 2):
            inside = [loss for at, loss in ends if 0 <= at - 1000 - opens <= 10]
            assert sum(inside) <= budget * len(inside) + burst + 0.2
        lost = sum(loss for _, loss in ends)
        assert lost == pytest.approx(budget * 3000 + burst, rel=0.05), "and it is used"
        status = executor.status()
        assert status["utility"]["spent"] == pytest.approx(lost, rel=1e-6)
        assert status["utility"]["share_10s"] == pytest.approx(budget, abs=0.005)
        stage = status["stages"]["f"]["partial"]
        assert stage["stops"] == status["partial"]
        assert stage["stops"] + stage["waits"] == 3000

    simulate(main)


def test_a_shard_that_fails_is_charged_but_never_waited_for() -> None:
    async def main() -> None:
        service = fan_and_merge()
        script = Script(
            lambda _, call: (
                raising(HandlerError("f", "ValueError", "broken"))
                if call.stage == "f" and call.shard == 2
                else after(0.01, call.shard if call.stage == "f" else call.args[0])
            )
        )
        executor = executor_of(service, script)
        executor.apply(plan_of(service, partial={"f": CUT}, utility_loss=0.0))
        answer = await executor.run("q", note=True)
        assert (answer.partial, answer.utility) == (True, 0.75)
        assert executor.status()["utility"]["spent"] == pytest.approx(0.25)
        assert executor.status()["utility"]["share_10s"] == pytest.approx(0.25)

    simulate(main)


@pytest.mark.parametrize("weight", [1.0, 0.75])
def test_the_plan_says_what_a_stages_loss_weighs(weight: float) -> None:
    service = service_of(
        Stage(name="f", fanout=2, utility_weight=3.0),
        Stage(name="g", fanout=2, utility_weight=1.0),
        Stage(name="m", after=("f", "g")),
    )

    async def main() -> None:
        script = Script(
            lambda _, call: after(0.5 if call.stage == "f" and call.shard else 0.01, len(call.args))
        )
        executor = executor_of(service, script)
        cut = PartialPolicy(cutoff_ms=100.0, wait_ms=None, progress=1.0, loss=0.01, weight=weight)
        executor.apply(plan_of(service, partial={"f": cut}))
        answer = await executor.run("q")
        assert answer.utility == pytest.approx(1 - 0.75 * 0.5), "the answer's own, by the service's weights"
        assert executor.status()["utility"]["spent"] == pytest.approx(weight * 0.5)

    simulate(main)


def test_control_requests_wait_for_all() -> None:
    async def main() -> None:
        service = fan_and_merge()
        executor = executor_of(service, hung([0.01, 0.5, 0.02, 0.03]), control_share=1.0)
        executor.apply(plan_of(service, partial={"f": CUT}))
        assert not (await executor.run("q")).partial

    simulate(main)


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_request_that_ended_otherwise_loses_no_utility(how: str) -> None:
    """The fan-out's timer fires afterwards, when one shard has answered and another is missing."""

    async def main() -> None:
        service = service_of(Stage(name="f", fanout=2), Stage(name="g"), Stage(name="m", after=("f", "g")))

        def behave(_: Any, call: Any) -> Any:
            if call.stage == "g":
                return (
                    raising(HandlerError("g", "ValueError", "broken"), 0.05)
                    if how == "failed"
                    else after(1.0)
                )
            return after(1.0 if call.shard else 0.01)

        executor = executor_of(service, Script(behave))
        executor.apply(plan_of(service, partial={"f": CUT}))
        run = asyncio.ensure_future(executor.run("q"))
        await asyncio.sleep(0.05)
        if how == "cancelled":
            run.cancel()
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else KwikenError):
            await run
        await asyncio.sleep(1.0)
        assert executor.status()["utility"]["spent"] == 0
        assert executor.status()["stages"]["f"]["partial"] == {"stops": 0, "waits": 0}

    simulate(main)


def test_account_of_utility_outlives_plans() -> None:
    async def main() -> None:
        service = fan_and_merge(2)
        executor = executor_of(service, hung([0.01, 0.4]))
        plan = plan_of(service, partial={"f": CUT}, utility_loss=0.01)
        executor.apply(plan)
        for _ in range(100):
            await executor.run("q")
            executor.apply(None)
            executor.apply(plan)
        assert executor.status()["utility"]["spent"] <= 1.0 + 0.01 * 100
        assert executor.status()["partial"] < 10

    simulate(main)


# Value of shards.


def worths(values: list[Any], **fan: Any) -> list[float | None]:
    service = fan_and_merge(len(values), **fan)

    async def main() -> list[float | None]:
        script = Script(lambda _, call: after(0.01, values[call.shard] if call.stage == "f" else 0))
        record = (await executor_of(service, script).run("q", note=True)).record
        assert record is not None
        return [attempt.worth for attempt in record.stages[0].attempts]

    return simulate(main)


def best_present(answer: Partial[Any]) -> float:
    """A utility that knows the answer: 1 where the 9 is there."""
    return float(9 in answer.present)


def test_worth_is_how_far_the_utility_falls_without_the_shard() -> None:
    assert worths([3, 9, 4], utility=best_present) == [0, 1, 0]
    assert worths([9, 9, 4], utility=best_present) == [0, 0, 0], "neither is missed"
    assert worths([3, 1, 4], utility=lambda answer: sum(answer.present) / 8) == [3 / 8, 1 / 8, 4 / 8]


def test_stages_own_worth_counts_and_is_made_to_shares() -> None:
    assert worths([3, 1], worth=lambda answer: answer.values) == [0.75, 0.25]
    assert worths([0, 0], worth=lambda answer: answer.values) == [0, 0]


def test_without_a_measure_no_worth_is_known() -> None:
    assert worths([3, 9]) == [None, None]


@pytest.mark.parametrize("wrong", [[1.0], [-1.0, 2.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_failing_worth_function_leaves_the_worth_unknown(
    wrong: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    assert worths([3, 9], worth=lambda answer: wrong) == [None, None]
    assert "worth" in caplog.text


def test_an_answer_without_a_shard_has_no_worth() -> None:
    async def main() -> None:
        service = fan_and_merge(2, utility=best_present)
        executor = executor_of(service, hung([0.01, 0.4]))
        executor.apply(plan_of(service, partial={"f": CUT}))
        record = (await executor.run("q", note=True)).record
        assert record is not None
        assert [attempt.worth for attempt in record.stages[0].attempts] == [None, None]
        assert (record.stages[0].partial, record.stages[0].utility) == (True, 0.0)

    simulate(main)


@pytest.mark.parametrize(("width", "measure"), [(64, "utility"), (2000, "worth")])
def test_utility_of_wide_answers_is_computed_a_bounded_number_of_times(width: int, measure: str) -> None:
    looked = 0

    def judge(answer: Partial[Any]) -> Any:
        nonlocal looked
        looked += len(answer.values)
        return 1.0 if measure == "utility" else [1.0] * width

    stage = fan_and_merge(width, **{measure: judge})["f"]
    rng = random.Random(1)
    known = sum(worths_of(stage, tuple(range(width)), rng) is not None for _ in range(1000))
    assert 0 < known < 1000
    assert looked <= 1.5 * MEAN_EVALUATIONS * 1000


def test_very_wide_answers_are_not_judged_by_leaving_out() -> None:
    stage = fan_and_merge(MAX_JUDGED_SHARDS + 1, utility=best_present)["f"]
    assert all(worths_of(stage, (1,) * (MAX_JUDGED_SHARDS + 1), random.Random(n)) is None for n in range(100))
