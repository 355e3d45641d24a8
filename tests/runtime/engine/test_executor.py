"""The executor under virtual time: DAGs, fan-outs, optional stages, deadlines, status."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError, KwikenError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue, Stage
from kwiken.runtime.base.errors import AllFailedError, DeadlineError, HandlerError, LostError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import VirtualClock, simulate
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


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_replica_without_memory_is_no_fault_of_the_request(idempotent: bool) -> None:
    """An idempotent call goes to another replica; the one without memory is avoided, as one that was lost."""

    async def main() -> None:
        service = one_stage(idempotent=idempotent)

        async def behave(replica: Replica, _: Call) -> Any:
            if replica.id == "s-0":
                raise HandlerError("s", "MemoryError", "")
            return "ok"

        script = Script(behave)
        executor = executor_of(service, script)
        endow(executor)
        failed = 0
        for _ in range(20):
            try:
                assert (await executor.run("q")).value == "ok"
            except HandlerError:
                failed += 1
        asked = sum(entry.replica == "s-0" for entry in script.sent)
        assert 1 <= asked <= 2
        assert failed == (0 if idempotent else asked)

    simulate(main)


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
