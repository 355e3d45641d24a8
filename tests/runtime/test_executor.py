"""The executor under virtual time: DAGs, fan-outs, optional stages, partial answers, deadlines, plans."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwiken import (
    Budgets,
    CatchUpPolicy,
    DefinitionError,
    InputError,
    KwikenError,
    Partial,
    PartialPolicy,
    Plan,
    Reissue,
    Service,
    Stage,
)
from runtime import AllFailedError, Call, DeadlineError, Executor, HandlerError, Limits, LostError, Replica
from tests.support.replicas import Script, after, endow, executor_of, one_stage, plan_of, raising, service_of
from tests.support.virtual import VirtualClock, simulate


def tracing(service: Service) -> Script:
    """Every stage answers with its name around its parents' answers, after as many ms as the name has letters."""

    async def behave(_: Replica, call: Call) -> Any:
        await asyncio.sleep(len(call.stage) / 1000)
        parts = [
            "[" + ",".join(map(str, arg.values)) + "]" if isinstance(arg, Partial) else str(arg)
            for arg in call.args
        ]
        shard = f"#{call.shard}" if service[call.stage].fanout > 1 else ""
        return f"{call.stage}{shard}({' '.join(parts)})"

    return Script(behave)


def run(service: Service, script: Any = None, **settings: Any) -> Any:
    async def main() -> Any:
        executor = executor_of(service, script or tracing(service), **settings)
        return await executor.run("q")

    return simulate(main)


def test_chain() -> None:
    service = service_of(Stage(name="a"), Stage(name="b", after=("a",)), Stage(name="c", after=("b",)))
    assert run(service).value == "c(b(a(q)))"


def test_parents_come_in_the_order_of_after() -> None:
    service = service_of(Stage(name="aaaa"), Stage(name="b"), Stage(name="c", after=("b", "aaaa")))
    assert run(service).value == "c(b(q) aaaa(q))"


def test_chain_with_a_shortcut_keeps_every_parent() -> None:
    service = service_of(Stage(name="a"), Stage(name="b", after=("a",)), Stage(name="c", after=("a", "b")))
    assert run(service).value == "c(a(q) b(a(q)))"


def test_fan_out_hands_over_shards_in_order() -> None:
    service = service_of(Stage(name="f", fanout=3), Stage(name="m", after=("f",)))
    answer = run(service)
    assert answer.value == "m([f#0(q),f#1(q),f#2(q)])"
    assert not answer.partial
    assert answer.utility == 1.0


def test_stages_side_by_side_run_at_once() -> None:
    service = service_of(Stage(name="a"), Stage(name="b"), Stage(name="c", after=("a", "b")))

    async def main() -> float:
        executor = executor_of(service, Script(lambda *_: after(1.0)))
        start = asyncio.get_running_loop().time()
        await executor.run("q")
        return asyncio.get_running_loop().time() - start

    assert simulate(main) == pytest.approx(2.0)


@st.composite
def services(draw: st.DrawFn) -> Service:
    count = draw(st.integers(1, 7))
    stages = []
    for index in range(count):
        parents = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        fanout = draw(st.sampled_from([1, 1, 2, 3]))
        stages.append(Stage(name=f"s{index}", after=tuple(f"s{p}" for p in sorted(parents)), fanout=fanout))
    used = {parent for stage in stages for parent in stage.after}
    stages.append(Stage(name="end", after=tuple(s.name for s in stages if s.name not in used)))
    return service_of(*stages)


@settings(max_examples=100, deadline=None)
@given(service=services(), seed=st.integers(0, 100))
def test_any_dag_runs_each_call_once_after_its_parents(service: Service, seed: int) -> None:
    rng = random.Random(seed)
    took = {
        (name, shard): rng.random() for name, stage in service.stages.items() for shard in range(stage.fanout)
    }

    async def main() -> None:
        script = Script(lambda _, call: after(took[call.stage, call.shard], (call.stage, call.args)))
        executor = executor_of(service, script)
        start = asyncio.get_running_loop().time()
        await executor.run("q")
        ends: dict[str, float] = {}
        starts: dict[str, float] = {}
        for entry in script.sent:
            assert entry.ended is not None
            ends[entry.call.stage] = max(ends.get(entry.call.stage, 0.0), entry.ended)
            starts[entry.call.stage] = entry.at
        assert len(script.sent) == len(took)
        for name, stage in service.stages.items():
            ready = max([ends[parent] for parent in stage.after], default=start)
            assert starts[name] == pytest.approx(ready), (
                "a stage starts once its parents are done, and no later"
            )

    simulate(main)


def test_fan_out_races_each_shard_on_its_own() -> None:
    """Only the slow shard is reissued, at a shard's cost."""
    service = service_of(
        Stage(name="f", fanout=8, replicas=2, idempotent=True), Stage(name="m", after=("f",), replicas=2)
    )

    def slow(call: Call) -> float:
        return 5.0 if call.stage == "f" and call.shard == 3 and call.attempt == 0 else 0.01

    async def main() -> None:
        script = Script(lambda _, call: after(slow(call), (call.shard, call.attempt)))
        executor = executor_of(service, script)
        executor.apply(
            plan_of(service, {"f": Reissue(after_ms=100, fraction=0.05)}, costs={"f": 0.8, "m": 0.2})
        )
        endow(executor)
        start = asyncio.get_running_loop().time()
        await executor.run("q")
        assert asyncio.get_running_loop().time() - start == pytest.approx(0.12)
        assert [entry.call.shard for entry in script.of("f") if entry.call.attempt] == [3]
        (merged,) = script.of("m")
        assert merged.call.args[0].values[3] == (3, 1)
        assert executor.status()["ledger"]["spent"] == pytest.approx(0.1)

    simulate(main)


def test_optional_stage_that_fails_leaves_none_and_lowers_the_utility() -> None:
    service = service_of(
        Stage(name="a"),
        Stage(name="b", after=("a",), optional=True, utility_weight=1.0),
        Stage(name="c", after=("a",), optional=True, utility_weight=3.0),
        Stage(name="d", after=("b", "c")),
    )

    async def behave(_: Replica, call: Call) -> Any:
        if call.stage == "b":
            raise HandlerError("b", "ValueError", "bad")
        return call.args

    answer = run(service, Script(behave))
    assert answer.value == (None, (("q",),))
    assert answer.partial
    assert answer.utility == 0.75


def test_optional_stage_in_a_chain() -> None:
    service = service_of(
        Stage(name="a"), Stage(name="b", after=("a",), optional=True), Stage(name="c", after=("b",))
    )

    async def behave(_: Replica, call: Call) -> Any:
        if call.stage == "b":
            raise LostError("reset")
        return call.args

    answer = run(service, Script(behave))
    assert answer.value == (None,)
    assert answer.partial
    assert answer.utility == 0.0


def test_optional_fan_out_that_fails_is_none() -> None:
    service = service_of(Stage(name="f", fanout=2, optional=True), Stage(name="m", after=("f",)))

    async def behave(_: Replica, call: Call) -> Any:
        if call.stage == "f" and call.shard:
            raise HandlerError("f", "ValueError", "bad")
        return call.args

    assert run(service, Script(behave)).value == (None,)


def test_stage_that_is_not_optional_fails_the_request() -> None:
    service = service_of(Stage(name="f", fanout=2), Stage(name="m", after=("f",)))

    async def behave(_: Replica, call: Call) -> Any:
        if call.stage == "f" and call.shard:
            raise HandlerError("f", "ValueError", "bad")
        return await after(1.0)

    with pytest.raises(HandlerError, match="stage 'f': ValueError: bad"):
        run(service, Script(behave))


def test_both_attempts_failing_raises_both() -> None:
    async def main() -> None:
        service = one_stage()
        executor = executor_of(
            service,
            Script(lambda _, call: raising(HandlerError("s", "ValueError", f"try {call.attempt}"), 0.3)),
        )
        executor.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.1)}))
        endow(executor)
        with pytest.raises(AllFailedError) as caught:
            await executor.run("q")
        assert [str(error) for error in caught.value.exceptions] == [
            "stage 's': ValueError: try 0",
            "stage 's': ValueError: try 1",
        ]
        assert isinstance(caught.value, KwikenError)
        assert caught.value.subgroup(HandlerError) is not None

    simulate(main)


# Partial answers.

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
    answer = run(service, Script(lambda _, call: after(2.0 * call.shard, call.args)))
    assert answer.value[0].complete


# Deadlines.


def test_deadline_is_passed_down() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(0.1))
        service = service_of(Stage(name="a", timeout_ms=400), Stage(name="b", after=("a",), timeout_ms=5000))
        executor = executor_of(service, script)
        start = asyncio.get_running_loop().time()
        await executor.run("q", deadline_ms=1000)
        deadlines = [entry.call.deadline - start for entry in script.sent]
        assert deadlines == pytest.approx([0.4, 1.0])

    simulate(main)


def test_work_past_the_deadline_is_dropped_before_it_runs() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(0.2))
        service = service_of(
            Stage(name="a", optional=True),
            Stage(name="b", after=("a",), optional=True),
            Stage(name="c", after=("b",)),
        )
        executor = executor_of(service, script)
        with pytest.raises(DeadlineError, match="'c'"):
            await executor.run("q", deadline_ms=100)
        assert [entry.call.stage for entry in script.sent] == ["a"]

    simulate(main)


@pytest.mark.parametrize("deadline_ms", [0, -5, float("nan"), float("inf")])
def test_deadline_that_is_none(deadline_ms: float) -> None:
    async def main() -> None:
        with pytest.raises(DeadlineError, match="time allowed"):
            await executor_of(one_stage(), Script(lambda *_: after(0.0))).run("q", deadline_ms=deadline_ms)

    simulate(main)


# Plans.


def test_plan_changes_under_traffic_and_requests_in_flight_keep_theirs() -> None:
    async def main() -> None:
        service = one_stage()
        script = Script(lambda _, call: after(0.01 if call.attempt else 1.0, call.attempt))
        executor = executor_of(service, script)
        with_copies = plan_of(service, {"s": Reissue(after_ms=100, fraction=0.1)}, budget=0.5)
        executor.apply(with_copies)
        endow(executor)
        before = asyncio.ensure_future(executor.run("q"))
        await asyncio.sleep(0.05)
        executor.apply(plan_of(service, {"s": Reissue(after_ms=500, fraction=0.1)}, budget=0.5))
        later = asyncio.ensure_future(executor.run("q"))
        start = asyncio.get_running_loop().time()
        assert (await before).value == 1
        assert asyncio.get_running_loop().time() - start == pytest.approx(0.06)
        assert (await later).value == 1
        assert asyncio.get_running_loop().time() - start == pytest.approx(0.51)

    simulate(main)


def test_no_request_fails_while_plans_change_all_the_time() -> None:
    async def main() -> None:
        service = service_of(
            Stage(name="f", fanout=3, replicas=2, idempotent=True), Stage(name="m", after=("f",), replicas=2)
        )
        rng = random.Random(7)
        executor = executor_of(service, Script(lambda *_: after(rng.expovariate(50))))
        plans = [
            None,
            plan_of(service, {"f": Reissue(after_ms=30, fraction=0.1)}),
            plan_of(service, partial={"f": CUT}),
        ]
        runs = []
        for index in range(300):
            runs.append(asyncio.ensure_future(executor.run("q")))
            executor.apply(plans[index % 3])
            await asyncio.sleep(0.003)
        await asyncio.gather(*runs)
        assert executor.status()["failed"] == 0
        assert executor.status()["requests"] == 300

    simulate(main)


def bad_plans() -> list[tuple[Any, type[Exception], str]]:
    service = one_stage(idempotent=False)
    two = service_of(Stage(name="s", replicas=2, idempotent=True))
    good = plan_of(two, {"s": Reissue(after_ms=1)})
    catching = Plan(
        version=1,
        service="svc",
        created="",
        profile="",
        budgets=Budgets(catch_up=0.1),
        cost=good.cost,
        stages={"s": type(good.stages["s"])(catch_up=CatchUpPolicy(after_ms=5))},
    )
    other = plan_of(service_of(Stage(name="s", idempotent=True), name="other"))
    stranger = plan_of(service_of(Stage(name="t", idempotent=True)), {"t": Reissue(after_ms=1)})
    return [
        (plan_of(service, {"s": Reissue(after_ms=1)}), DefinitionError, "not idempotent"),
        (plan_of(two, partial={"s": CUT}), DefinitionError, "no fan-out"),
        (catching, InputError, "catch up"),
        (other, InputError, "other"),
        (stranger, DefinitionError, "'t'"),
    ]


@pytest.mark.parametrize(("plan", "error", "message"), bad_plans())
def test_bad_plan_is_refused_whole_and_the_old_one_stays(
    plan: Plan, error: type[Exception], message: str
) -> None:
    async def main() -> None:
        service = one_stage(idempotent=message != "not idempotent")
        executor = executor_of(service, Script(lambda *_: after(0.0)))
        old = plan_of(service)
        executor.apply(old)
        before = executor.status()
        with pytest.raises(error, match=message):
            executor.apply(plan)
        assert executor.plan is old
        assert executor.status() == before

    simulate(main)


def test_stages_own_policy_is_in_force_until_a_plan_replaces_it() -> None:
    async def main() -> None:
        service = one_stage(reissue=Reissue(after_ms=100))
        script = Script(lambda _, call: after(0.01 if call.attempt else 1.0, call.attempt))
        executor = executor_of(service, script)
        endow(executor)
        assert (await executor.run("q")).value == 1
        executor.apply(plan_of(service))
        endow(executor)
        assert (await executor.run("q")).value == 0

    simulate(main)


def test_same_plan_again_and_again_buys_no_second_burst() -> None:
    async def main() -> None:
        service = one_stage(replicas=3)
        executor = executor_of(service, Script(lambda _, call: after(0.3)))
        plan = plan_of(service, {"s": Reissue(after_ms=100, fraction=0.05)}, budget=1.0)
        executor.apply(plan)
        endow(executor)
        for _ in range(20):
            await asyncio.gather(*(executor.run("q") for _ in range(30)))
            executor.apply(plan)
        assert executor.status()["reissues"] <= Limits().burst_calls

    simulate(main)


# Control share.


def test_control_share_is_never_reissued() -> None:
    async def main() -> None:
        service = one_stage(replicas=3)
        script = Script(lambda _, call: after(0.2))
        executor = executor_of(service, script, control_share=0.5)
        executor.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.5)}, budget=1.0))
        controls = 0
        for _ in range(300):
            endow(executor)
            script.sent.clear()
            record = (await executor.run("q", note=True)).record
            assert record is not None
            controls += record.control
            assert len(script.sent) == (1 if record.control else 2)
        assert 110 <= controls <= 190
        assert executor.status()["control"] == controls

    simulate(main)


def test_without_reissues_nothing_is_control() -> None:
    async def main() -> None:
        executor = executor_of(one_stage(), Script(lambda *_: after(0.0)), control_share=1.0)
        record = (await executor.run("q", note=True)).record
        assert record is not None
        assert not record.control

    simulate(main)


def test_coin_falls_with_the_planned_probability() -> None:
    async def main() -> None:
        service = one_stage(replicas=3)
        script = Script(lambda *_: after(0.2))
        executor = executor_of(service, script)
        executor.apply(
            plan_of(service, {"s": Reissue(after_ms=100, probability=0.25, fraction=0.25)}, budget=1.0)
        )
        for _ in range(400):
            endow(executor)
            await executor.run("q")
        assert 70 <= executor.status()["reissues"] <= 130

    simulate(main)


def test_copy_goes_to_another_replica_and_node() -> None:
    async def main() -> None:
        service = one_stage(replicas=4)
        script = Script(lambda _, call: after(0.3))
        replicas = [Replica(f"s-{n}", f"node-{n // 2}", "") for n in range(4)]
        executor = executor_of(service, script, replicas={"s": replicas})
        executor.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.5)}, budget=1.0))
        nodes = {replica.id: replica.node for replica in replicas}
        for _ in range(100):
            endow(executor)
            script.sent.clear()
            await executor.run("q")
            first, copy = script.sent
            assert nodes[first.replica] != nodes[copy.replica]

    simulate(main)


def test_single_replica_is_never_sent_a_copy_of_its_own_call() -> None:
    async def main() -> None:
        service = one_stage(replicas=2)
        script = Script(lambda *_: after(0.3))
        executor = executor_of(service, script, replicas={"s": [Replica("only", "n", "")]})
        executor.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.5)}, budget=1.0))
        endow(executor)
        await executor.run("q")
        assert len(script.sent) == 1
        assert executor.status()["ledger"]["spent"] == 0

    simulate(main)


# Construction and status.


def test_replicas_must_be_given_for_every_stage_and_no_other() -> None:
    service = one_stage()
    settings: Any = {"clock": VirtualClock(), "rng": random.Random(1)}
    with pytest.raises(KwikenError, match="'s'"):
        Executor(service, Script(lambda *_: after(0)), replicas={}, **settings)
    with pytest.raises(DefinitionError, match="'t'"):
        Executor(service, Script(lambda *_: after(0)), replicas={"s": [], "t": []}, **settings)


def test_unmerged_fan_out_is_refused_at_once() -> None:
    with pytest.raises(DefinitionError, match="'f'"):
        executor_of(service_of(Stage(name="f", fanout=2)), Script(lambda *_: after(0)))


def test_replicas_change_under_traffic() -> None:
    async def main() -> None:
        service = one_stage(replicas=2)
        script = Script(lambda replica, _: after(0.1, replica.id))
        executor = executor_of(service, script)
        run = asyncio.ensure_future(executor.run("q"))
        await asyncio.sleep(0.05)
        executor.set_replicas("s", [Replica("new", "n", "")])
        assert (await executor.run("q")).value == "new"
        assert (await run).value in {"s-0", "s-1"}
        assert [replica["id"] for replica in executor.status()["stages"]["s"]["replicas"]] == ["new"]
        with pytest.raises(DefinitionError, match="'t'"):
            executor.set_replicas("t", [])

    simulate(main)


def test_status_is_plain_json() -> None:
    import msgspec

    async def main() -> Any:
        service = service_of(Stage(name="f", fanout=2, replicas=2), Stage(name="m", after=("f",)))
        executor = executor_of(service, Script(lambda *_: after(0.02)))
        for _ in range(3):
            await executor.run("q")
        return executor.status()

    status = simulate(main)
    assert msgspec.json.decode(msgspec.json.encode(status)) == status
    assert status["requests"] == 3
    assert status["stages"]["f"]["calls"] == 6
    assert status["stages"]["f"]["p50_ms"] == pytest.approx(20, rel=0.04)
    assert {"fraction", "work", "spent", "denied", "worst_10s"} <= status["ledger"].keys()
