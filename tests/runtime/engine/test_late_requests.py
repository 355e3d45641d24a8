"""Catch-up of late requests in virtual time: copies, priority and threads, each within its account."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from kwiken.model.plan.accounts import REQUEST
from kwiken.model.plan.ledger_terms import BURST_REQUESTS, RESERVE_SHARE
from kwiken.model.plan.plan import CatchUpPolicy
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue, Stage
from kwiken.runtime.decisions.admission import Limits
from kwiken.runtime.decisions.ledger.budget_ledger import RetryAccount
from kwiken.runtime.decisions.stage_state import StageState
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.engine.hedged_call.catch_up import usual_extra
from kwiken.runtime.wire.transport.base import MAX_PRIORITY, Reply
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, after, endow, executor_of, plan_of, raising, service_of

COPY = CatchUpPolicy(after_ms=100, reissue=True)


async def worker(value: Any, *, threads: int) -> Any:
    raise NotImplementedError(value, threads)


def chain(*, threads: int = 1, **last: Any) -> Service:
    """Two stages, the second of three replicas."""
    return service_of(
        Stage(name="a", replicas=2, idempotent=True),
        Stage(
            name="b",
            after=("a",),
            replicas=3,
            idempotent=True,
            threads=threads,
            handler=worker if threads > 1 else None,
            **last,
        ),
    )


def script_of(times: Mapping[str, float], copy: float = 0.01) -> Script:
    """Primaries that take the given seconds; further attempts take `copy`."""
    return Script(lambda _, call: after(copy if call.attempt else times[call.stage], call.attempt))


def under(
    service: Service, script: Any, late: Mapping[str, CatchUpPolicy], *, rich: bool = True, **plan: Any
) -> Executor:
    """An executor with such a plan and full accounts; call this with the loop running."""
    executor = executor_of(
        service, script, **{k: plan.pop(k) for k in ("control_share", "limits") if k in plan}
    )
    executor.apply(plan_of(service, plan.pop("reissues", None), late=late, **plan))
    if rich:
        endow(executor)
    return executor


async def timed(executor: Executor, **how: Any) -> tuple[Any, float]:
    start = asyncio.get_running_loop().time()
    answer = await executor.run("q", **how)
    return answer, asyncio.get_running_loop().time() - start


# Copies.


def test_a_running_call_gets_its_copy_when_the_request_becomes_late() -> None:
    async def main() -> None:
        script = script_of({"a": 0.08, "b": 1.0})
        executor = under(chain(), script, {"b": COPY})
        answer, took = await timed(executor)
        assert took == pytest.approx(0.11)
        assert answer.value == 1
        assert [entry.call.attempt for entry in script.of("b")] == [0, 1]

    simulate(main)


def test_later_calls_get_their_copy_at_their_start() -> None:
    async def main() -> None:
        script = script_of({"a": 0.3, "b": 1.0})
        answer, took = await timed(under(chain(), script, {"b": COPY}))
        assert took == pytest.approx(0.31)
        assert answer.value == 1
        assert script.of("a")[-1].call.attempt == 0, "only the stages of the plan catch up"

    simulate(main)


def test_request_in_time_is_left_alone() -> None:
    async def main() -> None:
        script = script_of({"a": 0.04, "b": 0.05})
        executor = under(chain(), script, {"a": COPY, "b": COPY})
        await timed(executor)
        assert len(script.sent) == 2
        assert executor.status()["catch_up"]["spent"] == 0

    simulate(main)


@pytest.mark.parametrize(("local_ms", "copy_at"), [(500, 0.1), (20, 0.08)])
def test_the_earlier_of_both_moments_counts_and_one_copy_goes(local_ms: float, copy_at: float) -> None:
    """Kwiken, global reissue: at local age min(T_s, T_z - S_s)."""

    async def main() -> None:
        script = script_of({"a": 0.06, "b": 2.0}, copy=0.9)
        reissues = {"b": Reissue(after_ms=local_ms, fraction=0.1)}
        executor = under(chain(), script, {"b": COPY}, reissues=reissues, budget=0.5)
        start = asyncio.get_running_loop().time()
        await executor.run("q")
        assert [entry.at - start for entry in script.of("b")] == pytest.approx([0.06, copy_at])
        status = executor.status()
        late = copy_at == 0.1
        assert (status["catch_up"]["spent"], status["ledger"]["spent"]) == ((0.5, 0) if late else (0, 0.5))
        assert (status["reissues"], status["late_reissues"]) == ((0, 1) if late else (1, 0))

    simulate(main)


def test_every_shard_in_flight_gets_its_copy() -> None:
    service = service_of(
        Stage(name="f", fanout=4, replicas=3, idempotent=True), Stage(name="m", after=("f",))
    )

    async def main() -> None:
        def behave(_: Any, call: Any) -> Any:
            slow = call.stage == "f" and call.shard > 1 and not call.attempt
            return after(1.0 if slow else 0.01, call.shard)

        script = Script(behave)
        executor = under(service, script, {"f": COPY})
        _, took = await timed(executor)
        assert took == pytest.approx(0.12)
        assert sorted(e.call.shard for e in script.of("f") if e.call.attempt) == [2, 3]
        assert executor.status()["catch_up"]["spent"] == pytest.approx(2 * 0.5 / 4)

    simulate(main)


def test_without_budget_no_late_copy_goes_and_the_call_in_flight_is_untouched() -> None:
    async def main() -> None:
        script = script_of({"a": 0.3, "b": 1.0})
        executor = under(chain(), script, {"b": COPY}, catch_up=0.0)
        answer, took = await timed(executor)
        assert took == pytest.approx(1.3)
        assert answer.value == 0
        assert executor.status()["catch_up"]["denied"] > 0

    simulate(main)


def test_late_copies_never_spend_the_reissue_budget_nor_the_other_way_round() -> None:
    async def main() -> None:
        script = script_of({"a": 0.3, "b": 1.0})
        executor = under(chain(), script, {"b": COPY}, catch_up=0.0, budget=1.0)
        await timed(executor)
        assert executor.status()["ledger"]["spent"] == 0
        reissues = {"b": Reissue(after_ms=50, fraction=0.1)}
        executor = under(chain(), script, {"b": COPY}, budget=0.0, reissues=reissues)
        await timed(executor)
        status = executor.status()
        assert (status["reissues"], status["late_reissues"]) == (0, 1)
        assert status["catch_up"]["spent"] == 0.5

    simulate(main)


def test_a_request_spends_at_most_its_own_cost() -> None:
    async def main() -> None:
        service = service_of(
            *(
                Stage(name=f"s{n}", after=(f"s{n - 1}",) if n else (), replicas=2, idempotent=True)
                for n in range(3)
            )
        )
        script = Script(lambda _, call: after(0.05 if call.attempt else 0.2))
        late = {name: CatchUpPolicy(after_ms=0, reissue=True) for name in service.stages}
        executor = under(service, script, late, catch_up=1.0, costs={"s0": 0.5, "s1": 0.3, "s2": 0.2})
        await timed(executor)
        assert executor.status()["late_reissues"] == 3
        assert executor.status()["catch_up"]["spent"] == pytest.approx(1.0)

    simulate(main)


def test_control_requests_get_nothing() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(0.3))
        late = CatchUpPolicy(after_ms=100, reissue=True, priority=True, threads=3)
        executor = under(chain(threads=3), script, {"b": late}, control_share=1.0)
        record = (await executor.run("q", note=True)).record
        assert record is not None
        assert record.control
        assert [(e.call.threads, e.call.priority) for e in script.sent] == [(1, 0), (1, 0)]

    simulate(main)


def test_under_load_only_priority_is_given() -> None:
    async def main() -> None:
        script = Script(lambda _, call: after(0.3, Reply(call.attempt, busy_ms=1.0)))
        late = CatchUpPolicy(after_ms=100, reissue=True, priority=True, threads=3)
        crowded = Limits(requests=10, always=0, calm_below=0.2)
        executor = under(chain(threads=3), script, {"b": late}, limits=crowded)
        await asyncio.gather(*(executor.run("q") for _ in range(4)))
        calls = [entry.call for entry in script.of("b")]
        assert [(call.threads, call.priority, call.attempt) for call in calls] == [(1, 1, 0)] * 4
        assert executor.status()["catch_up"]["spent"] == 0

    simulate(main)


def test_where_everything_is_late_the_spend_ends() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(0.3))
        executor = under(chain(), script, {"b": COPY}, rich=False, catch_up=0.1)
        for _ in range(40):
            await asyncio.gather(*(executor.run("q") for _ in range(10)))
        status = executor.status()
        burst = 0.1 * (1 - RESERVE_SHARE) * BURST_REQUESTS
        assert status["catch_up"]["spent"] <= burst + 0.5
        assert status["catch_up"]["denied"] > 0

    simulate(main)


def test_account_outlives_plans() -> None:
    async def main() -> None:
        service = chain()
        script = script_of({"a": 0.3, "b": 1.0})
        executor = under(service, script, {"b": COPY}, catch_up=0.02)
        plan = executor.plan
        for _ in range(30):
            await executor.run("q")
            executor.apply(None)
            executor.apply(plan)
        account = executor.ledger.catch_up
        assert account.spent == round(executor.status()["late_reissues"] * 0.5 * REQUEST)
        assert account.spent <= 0.02 * account.work

    simulate(main)


# Priority.


def test_late_requests_later_calls_go_with_more_priority() -> None:
    async def main() -> None:
        script = script_of({"a": 0.3, "b": 1.0})
        late = CatchUpPolicy(after_ms=100, priority=True, reissue=True)
        await timed(under(chain(), script, {"a": late, "b": late}), priority=2)
        assert [e.call.priority for e in script.of("a")] == [2, 3], "it started in time, its copy late"
        assert [e.call.priority for e in script.of("b")] == [3, 3]

    simulate(main)


def test_priority_stays_in_its_bounds() -> None:
    async def main() -> None:
        script = script_of({"a": 0.3, "b": 0.1})
        await timed(under(chain(), script, {"b": CatchUpPolicy(after_ms=100, priority=True)}), priority=9)
        assert [e.call.priority for e in script.of("b")] == [MAX_PRIORITY]

    simulate(main)


# Threads.


THREADS = CatchUpPolicy(after_ms=100, threads=3)


def test_one_report_of_a_replica_does_not_make_threads_cheap() -> None:
    state = StageState((), RetryAccount(0.1, 32), random.Random(1))
    state.work.learn_busy(10.0)
    state.work.learn_busy(1e9)
    assert state.work.busy_ms == pytest.approx(11.0)
    for _ in range(100):
        state.work.learn_busy(10.0)
    assert state.work.busy_ms == pytest.approx(10.0, rel=0.01)


def busy(first_s: float, busy_ms: Mapping[int, float]) -> Script:
    """CPU time of the second stage's calls, by the number of their threads."""
    return Script(
        lambda _, call: after(
            first_s if call.stage == "a" else 0.01, Reply("ok", busy_ms=busy_ms[call.threads])
        )
    )


def test_calls_that_start_late_get_threads_and_pay_what_they_burn() -> None:
    async def main() -> None:
        slow = {"now": False}

        def behave(_: Any, call: Any) -> Any:
            late = call.stage == "a" and slow["now"]
            return after(0.3 if late else 0.01, Reply("ok", busy_ms={1: 10.0, 3: 16.0}[call.threads]))

        script = Script(behave)
        executor = under(chain(threads=4), script, {"b": THREADS})
        for _ in range(20):
            await executor.run("q")
        assert {e.call.threads for e in script.sent} == {1}
        slow["now"] = True
        await executor.run("q")
        assert [e.call.threads for e in script.sent[-2:]] == [1, 3]
        status = executor.status()
        assert status["catch_up"]["spent"] == pytest.approx(0.6 * 0.5)
        assert status["stages"]["b"]["late"] == {"copies": 0, "calls": 1, "threads": 1}

    simulate(main)


def test_the_cost_of_threads_is_assumed_until_measured() -> None:
    async def main() -> None:
        script = busy(0.3, {1: 10.0, 3: 90.0})
        executor = under(chain(threads=3), script, {"b": THREADS})
        await executor.run("q")
        assert executor.status()["catch_up"]["spent"] == pytest.approx(usual_extra(3) * 0.5)

    simulate(main)


def test_what_threads_cost_is_bounded() -> None:
    async def main() -> None:
        script = busy(0.3, {1: 1.0, 3: 900.0})
        executor = under(chain(threads=3), script, {"b": THREADS}, catch_up=1.0)
        executor.states["b"].work.learn_busy(1.0)
        await executor.run("q")
        assert executor.status()["catch_up"]["spent"] == pytest.approx(2 * 0.5)

    simulate(main)


def test_threads_that_burn_more_than_was_held_are_owed() -> None:
    async def main() -> None:
        script = busy(0.3, {1: 10.0, 3: 30.0})
        executor = under(chain(threads=3), script, {"b": THREADS}, rich=False, catch_up=0.1)
        executor.states["b"].work.learn_busy(10.0)
        for _ in range(200):
            await executor.run("q")
        account = executor.status()["catch_up"]
        burst = 0.1 * (1 - RESERVE_SHARE) * BURST_REQUESTS
        assert account["spent"] <= burst + 2 * 0.5, (
            "late work earns nothing, so one burst and one debt at most"
        )

    simulate(main)


def test_without_budget_late_calls_run_with_one_thread() -> None:
    async def main() -> None:
        script = busy(0.3, {1: 10.0})
        executor = under(chain(threads=3), script, {"b": THREADS}, catch_up=0.0)
        await executor.run("q")
        assert [e.call.threads for e in script.of("b")] == [1]

    simulate(main)


def test_a_refused_attempt_pays_nothing_and_the_next_one_gets_the_threads() -> None:
    from kwiken.runtime.base.errors import RefusedError

    async def main() -> None:
        refusals = iter([True])

        def behave(_: Any, call: Any) -> Any:
            if call.stage == "b" and next(refusals, False):
                return raising(RefusedError("full"))
            return after(0.3 if call.stage == "a" else 0.01, Reply("ok", busy_ms=1.0))

        script = Script(behave)
        executor = under(chain(threads=3), script, {"b": THREADS})
        await executor.run("q")
        assert [e.call.threads for e in script.of("b")] == [3, 3]
        assert executor.status()["catch_up"]["spent"] == pytest.approx(usual_extra(3) * 0.5)
        assert executor.status()["stages"]["b"]["late"]["threads"] == 1

    simulate(main)


def test_copies_run_with_one_thread() -> None:
    async def main() -> None:
        script = script_of({"a": 0.3, "b": 1.0})
        late = CatchUpPolicy(after_ms=100, threads=2, reissue=True)
        await timed(under(chain(threads=2), script, {"b": late}, catch_up=1.0))
        assert [e.call.threads for e in script.of("b")] == [2, 1]

    simulate(main)


# Notes.


def test_records_mark_the_calls_of_late_requests() -> None:
    async def main() -> None:
        def behave(_: Any, call: Any) -> Any:
            slow = {"a": 0.3, "b": 0.2}[call.stage] if not call.attempt else 0.01
            return after(slow, Reply("ok", busy_ms=1.0))

        late = CatchUpPolicy(after_ms=100, threads=3, reissue=True)
        executor = under(chain(threads=4), Script(behave), {"b": late}, catch_up=1.0)
        record = (await executor.run("q", note=True)).record
        assert record is not None
        first, second = record.stages
        assert (first.threads, second.threads) == (1, 4), "what a stage can use"
        assert [(a.kind.value, a.threads, a.catch_up) for a in first.attempts + second.attempts] == [
            ("primary", 1, False),
            ("primary", 3, True),
            ("reissue", 1, True),
        ]

    simulate(main)


def test_a_copy_that_the_reissue_budget_pays_is_not_noted_as_catch_up() -> None:
    async def main() -> None:
        late = CatchUpPolicy(after_ms=100, priority=True)
        reissues = {"b": Reissue(after_ms=20, fraction=0.1)}
        executor = under(
            chain(), script_of({"a": 0.3, "b": 1.0}), {"b": late}, reissues=reissues, budget=1.0, catch_up=1.0
        )
        record = (await executor.run("q", note=True)).record
        assert record is not None
        assert [(a.kind.value, a.catch_up) for a in record.stages[1].attempts] == [
            ("primary", True),
            ("reissue", False),
        ]
        assert executor.status()["catch_up"]["spent"] == 0

    simulate(main)


def test_everything_at_once_ends_whole() -> None:
    """All levers, slow and lost calls; no request fails, nothing is left, accounts add up."""
    service = service_of(
        Stage(name="a", replicas=2, idempotent=True),
        Stage(name="f", after=("a",), fanout=3, replicas=3, idempotent=True, threads=3, handler=shard_worker),
        Stage(name="m", after=("f",), replicas=2, idempotent=True),
    )

    async def main() -> None:
        import random

        rng = random.Random(3)

        def behave(_: Any, call: Any) -> Any:
            slow = rng.random() < 0.1
            return after(rng.expovariate(3 if slow else 60), Reply(call.shard, busy_ms=rng.uniform(1, 9)))

        script = Script(behave)
        late = CatchUpPolicy(after_ms=60, reissue=True, threads=3, priority=True)
        executor = under(
            service,
            script,
            dict.fromkeys(("a", "f", "m"), CatchUpPolicy(after_ms=60, reissue=True)) | {"f": late},
            rich=False,
            reissues={"f": Reissue(after_ms=80, fraction=0.1)},
            control_share=0.05,
        )
        for _ in range(60):
            await asyncio.gather(*(executor.run("q", note=True) for _ in range(8)))
        status = executor.status()
        assert status["failed"] == 0
        assert status["late_reissues"] > 0
        assert status["stages"]["f"]["late"]["threads"] > 0
        assert status["catch_up"]["spent_share"] <= 0.1 + 5.0 / status["catch_up"]["work"]
        assert script.running == []

    simulate(main)


async def shard_worker(value: Any, *, shard: int, threads: int) -> Partial[Any]:
    raise NotImplementedError(value, shard, threads)
