"""Faults under load and virtual time: nothing is lost that another replica can serve, and no storm breaks out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from kwiken.model.plan.accounts import FLOOR_BURST
from kwiken.model.plan.ledger_terms import BURST_REQUESTS, LedgerTerms
from kwiken.model.plan.plan import Plan
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.base.errors import (
    DeadlineError,
    HandlerError,
    LostError,
    OverloadError,
    RefusedError,
    UnavailableError,
)
from kwiken.runtime.decisions.admission import Limits
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.loadtest.load import Load, drive
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

FAULT_FROM, FAULT_TO, END = 15.0, 30.0, 45.0
BAD = "s-0"
RNG = random.Random(5)


def usual() -> float:
    """Log-normal service time of about 10 ms."""
    return RNG.lognormvariate(-4.6, 0.5)


async def fine() -> str:
    return await asyncio.sleep(usual(), "ok")


class World:
    """One stage with three replicas under 100 requests a second; between two moments a fault strikes."""

    def __init__(
        self, fault: Callable[[str, float], Any], *, plan: Plan | None = None, **settings: Any
    ) -> None:
        self.fault = fault
        self.settings = settings
        self.plan = plan
        self.start = 0.0
        self.script = Script(self.behave)
        self.executor: Executor
        self.load: Load

    async def behave(self, replica: Replica, _: Call) -> Any:
        age = asyncio.get_running_loop().time() - self.start
        if FAULT_FROM <= age < FAULT_TO:
            await self.fault(replica.id, age)
        return await fine()

    def run(self, **load: Any) -> World:
        async def main() -> None:
            self.start = asyncio.get_running_loop().time()
            self.executor = executor_of(one_stage(replicas=3, **self.settings), self.script)
            self.executor.apply(self.plan)
            self.load = await drive(self.executor, rate=load.pop("rate", 100.0), seconds=END, **load)

        simulate(main)
        return self

    def calls(self, replica: str, low: float, high: float) -> int:
        return sum(
            entry.replica == replica and low <= entry.at - self.start < high for entry in self.script.sent
        )

    @property
    def stage(self) -> dict[str, Any]:
        stage: dict[str, Any] = self.status["stages"]["s"]
        return stage

    @property
    def status(self) -> Any:
        async def main() -> Any:
            return self.executor.status()

        return simulate(main)


TERMS = LedgerTerms()
FLOOR_COPIES = TERMS.floor_per_s * 10 + FLOOR_BURST  # what the floor grants in 10 s
HEDGE = plan_of(one_stage(replicas=3), {"s": Reissue(after_ms=40, fraction=0.05)})
PLANS = pytest.mark.parametrize("plan", [None, HEDGE], ids=["no plan", "plan"])


async def refuse(replica: str, _: float) -> None:
    if replica == BAD:
        raise RefusedError("connection refused")


async def crash(replica: str, _: float) -> None:
    if replica == BAD:
        await raising(LostError("connection reset"), 0.003)


async def pause(replica: str, age: float) -> None:
    if replica == BAD:
        await asyncio.sleep(FAULT_TO - age)


@PLANS
@pytest.mark.parametrize("fault", [refuse, crash, pause])
def test_a_failing_replica_loses_no_request_and_is_ejected_until_it_recovers(
    fault: Any, plan: Plan | None
) -> None:
    world = World(fault, plan=plan).run()
    assert world.load.errors == []
    assert world.calls(BAD, FAULT_FROM, FAULT_TO) <= 30, "it is tried now and then, no more"
    assert world.calls(BAD, FAULT_TO + 6, END) >= 200, "and taken back within the longest backoff"
    assert world.load.quantile(0.98, FAULT_FROM, FAULT_TO) < 2 * world.load.quantile(0.98, 0, FAULT_FROM)
    assert not any(replica["ejected"] for replica in world.stage["replicas"])


@PLANS
def test_retries_stay_within_their_account(plan: Plan | None) -> None:
    """Two of three replicas crash on every call: far more calls are lost than may be retried."""

    async def both(replica: str, _: float) -> None:
        if replica != "s-2":
            await raising(LostError("reset"), 0.003)

    world = World(both, plan=plan).run()
    limits = Limits()
    assert world.stage["retries"] <= limits.retry_burst + limits.retry_share * world.stage["calls"]
    assert world.load.between(FAULT_TO + 6, END)
    assert not [o for o in world.load.between(FAULT_TO + 6, END) if o.error]


PEAK_COPIES = TERMS.peak(0.05) * 10 * 100  # what 10 s of 100 requests a second allow


def test_when_every_replica_is_slow_reissues_fall_to_the_floor() -> None:
    async def slow(_: str, __: float) -> None:
        await asyncio.sleep(0.1)

    world = World(slow, plan=HEDGE).run()
    assert world.load.errors == []
    copies = [entry.at - world.start for entry in world.script.sent if entry.call.attempt]
    assert len([at for at in copies if FAULT_FROM <= at < FAULT_FROM + 10]) <= PEAK_COPIES + FLOOR_COPIES
    late = [at for at in copies if FAULT_FROM + 10 <= at < FAULT_TO]
    assert len(late) <= TERMS.floor_per_s * (FAULT_TO - FAULT_FROM - 10) + 1
    assert [at for at in copies if at >= FAULT_TO + 5], "and they come back with the speed"


def share_of_late_calls_with_a_copy(slow: set[str]) -> float:
    """Share among the calls that meet a stall; stalls of half a second are too short to be learned as usual."""

    def stalled(age: float) -> bool:
        return FAULT_FROM <= age < FAULT_TO and age % 5.0 < 0.5

    async def stalls(replica: str, age: float) -> None:
        if replica in slow and stalled(age):
            await asyncio.sleep(0.04)

    world = World(stalls, plan=HEDGE).run()
    assert world.load.errors == []
    met = [entry for entry in world.script.sent if stalled(entry.at - world.start)]
    copies = sum(entry.call.attempt > 0 for entry in met)
    return copies / sum(entry.call.attempt == 0 and entry.replica in slow for entry in met)


def test_copies_wait_while_all_calls_take_longer_than_usual() -> None:
    assert share_of_late_calls_with_a_copy({BAD}) > 0.7
    assert share_of_late_calls_with_a_copy({"s-0", "s-1", "s-2"}) < 0.2


@pytest.mark.parametrize(("rate", "shards"), [(1.0, 20), (20.0, 20), (20.0, 4), (100.0, 1)])
def test_copies_of_stragglers_of_their_own_do_not_wait(rate: float, shards: int) -> None:
    """One call of a hundred is slow because of its replica; nothing is shared."""
    rng = random.Random(5)

    async def behave(_: Replica, call: Call) -> str:
        if call.stage == "s" and not call.attempt and rng.random() < 0.01:
            await asyncio.sleep(0.3)
        return await asyncio.sleep(rng.lognormvariate(-4.6, 0.5), "ok")

    async def main() -> tuple[int, int]:
        service = service_of(
            Stage(name="s", fanout=shards, replicas=3, idempotent=True, timeout_ms=5000),
            Stage(name="m", after=("s",)),
        )
        executor = executor_of(service, Script(behave))
        executor.apply(plan_of(service, {"s": Reissue(after_ms=40, fraction=0.1)}, budget=0.3))
        await drive(executor, rate=rate, seconds=600 / rate)
        stage = executor.status()["stages"]["s"]
        return stage["reissues"], stage["put_off"]

    copies, waited = simulate(main)
    assert copies > 5
    assert waited <= 0.05 * copies


def test_a_moment_in_which_quick_calls_are_slow_does_not_hold_up_a_slow_call() -> None:
    """Quick stages take 2 ms, the last one a second. Its copy is due just when the quick ones take 7 ms."""
    quick = [
        Stage(name=name, after=after_, replicas=2, idempotent=True, timeout_ms=30_000)
        for name, after_ in (("a", ()), ("b", ("a",)), ("c", ("b",)))
    ]
    service = service_of(
        *quick, Stage(name="d", after=("c",), replicas=2, idempotent=True, timeout_ms=30_000)
    )

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        start = loop.time()

        async def behave(_: Replica, call: Call) -> str:
            age = loop.time() - start
            if call.stage != "d":
                return await asyncio.sleep(0.007 if 22.95 < age < 23.05 else 0.002, "ok")
            return await asyncio.sleep(60 if not call.attempt and 19.99 < age < 20.02 else 1.0, "ok")

        script = Script(behave)
        executor = executor_of(service, script)
        executor.apply(plan_of(service, {"d": Reissue(after_ms=3000, fraction=0.1)}, budget=0.2))
        load = await drive(executor, rate=250.0, seconds=26.0)
        assert load.errors == []
        return [entry.at - start for entry in script.sent if entry.call.attempt]

    copies = simulate(main)
    assert copies
    assert all(22.9 < at < 23.2 for at in copies)


def test_no_extra_attempts_when_every_replica_is_down() -> None:
    async def dead(_: str, __: float) -> None:
        await raising(LostError("reset"), 0.06)  # after the reissue moment, too

    world = World(dead, plan=HEDGE).run()
    requests = len(world.load.between(FAULT_FROM, FAULT_TO))
    calls = sum(world.calls(replica, FAULT_FROM, FAULT_TO) for replica in ("s-0", "s-1", "s-2"))
    floor = TERMS.floor_per_s * (FAULT_TO - FAULT_FROM)
    assert calls <= requests + PEAK_COPIES + floor + Limits().retry_burst + 10
    requests = len(world.load.between(FAULT_FROM + 10, FAULT_TO))
    calls = sum(world.calls(replica, FAULT_FROM + 10, FAULT_TO) for replica in ("s-0", "s-1", "s-2"))
    assert calls <= requests + TERMS.floor_per_s * (FAULT_TO - FAULT_FROM - 10) + 10
    assert not [o for o in world.load.between(FAULT_TO + 6, END) if o.error]


def test_spend_stays_within_the_budget_in_every_window() -> None:
    """A replica pauses for 150 ms again and again: more calls than the budget holds want a copy."""

    async def bursts(replica: str, age: float) -> None:
        phase = (age + 0.4 * int(replica[-1])) % 1.2
        if phase < 0.15:
            await asyncio.sleep(0.15 - phase)

    terms = LedgerTerms(peak_factor=1.5, floor_per_s=0.0)
    policy = Reissue(after_ms=25, fraction=0.02)
    world = World(bursts, plan=plan_of(one_stage(replicas=3), {"s": policy}, budget=0.02, ledger=terms))
    world.run()
    assert world.load.errors == []
    status = world.status
    assert status["reissues"] > 30
    assert status["ledger"]["denied"] > 0
    assert (status["ledger"]["worst_10s"] or 0.0) <= 0.03
    assert status["ledger"]["horizon_share"] * status["ledger"]["work"] <= 0.02 * (END * 100 + BURST_REQUESTS)
    sent = [entry.at for entry in world.script.sent if entry.call.attempt]
    done = [entry.at for entry in world.script.sent if entry.end == "answered"]
    for opens in sent:
        spent = sum(opens <= at <= opens + 10 for at in sent)
        work = sum(opens <= at <= opens + 10 for at in done)
        assert spent <= 0.03 * work + 1.0


def test_hanging_call_is_retried_after_half_of_its_timeout() -> None:
    async def main() -> None:
        script = Script(lambda _, call: after(0.01 if call.attempt else 100.0, call.attempt))
        executor = executor_of(one_stage(timeout_ms=2000), script)
        start = asyncio.get_running_loop().time()
        answer = await executor.run("q", note=True)
        assert answer.value == 1
        assert asyncio.get_running_loop().time() - start == pytest.approx(1.01)
        assert [entry.end for entry in script.sent] == ["cancelled", "answered"]
        hung = [replica for replica in executor.status()["stages"]["s"]["replicas"] if replica["ejected"]]
        assert [replica["id"] for replica in hung] == [script.sent[0].replica]

    simulate(main)


def test_hanging_call_that_may_not_run_twice_is_left_to_hang() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(100.0))
        executor = executor_of(one_stage(idempotent=False, timeout_ms=2000), script)
        for _ in range(3):  # the later ones meet an ejected replica on trial
            with pytest.raises(DeadlineError):
                await executor.run("q")
            await asyncio.sleep(10.0)
        assert len(script.sent) == 3

    simulate(main)


def test_a_dark_host_costs_no_request_that_may_not_run_twice_once_it_is_known() -> None:
    """It swallows calls and probes for a minute; then it answers both, and gets calls again."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        dark_from, dark_to = loop.time() + 5.0, loop.time() + 65.0

        def dark(replica: Replica) -> bool:
            return replica.id == BAD and dark_from <= loop.time() < dark_to

        script = Script(lambda replica, _: after(100.0 if dark(replica) else 0.01))
        script.alive = lambda replica: not dark(replica)
        executor = executor_of(one_stage(replicas=3, idempotent=False, timeout_ms=1000), script)
        load = await drive(executor, rate=20.0, seconds=80.0)
        lost = [entry.at for entry in script.sent if entry.end == "cancelled"]
        assert load.errors
        assert max(lost) < dark_from + 5.0, "calls that were sent before it was known to be dark"
        assert script.asked.count(BAD) > 5
        assert any(entry.replica == BAD for entry in script.sent if entry.at >= dark_to)

    simulate(main)


def test_call_that_may_not_run_twice_is_not_retried() -> None:
    async def main() -> None:
        script = Script(lambda *_: raising(LostError("reset")))
        executor = executor_of(one_stage(idempotent=False), script)
        with pytest.raises(LostError):
            await executor.run("q")
        assert len(script.sent) == 1

    simulate(main)


def test_a_refused_call_is_resent_even_if_it_is_not_idempotent() -> None:
    async def main() -> None:
        async def behave(replica: Replica, _: Call) -> Any:
            if replica.id != "s-2":
                raise RefusedError("queue full")
            return "ok"

        executor = executor_of(one_stage(idempotent=False, replicas=3), Script(behave))
        for _ in range(50):
            assert (await executor.run("q")).value == "ok"

    simulate(main)


def test_every_replica_refusing_is_unavailable() -> None:
    async def main() -> None:
        script = Script(lambda *_: raising(RefusedError("queue full")))
        executor = executor_of(one_stage(replicas=3), script)
        with pytest.raises(UnavailableError, match="all 3 replicas"):
            await executor.run("q")
        assert len({entry.replica for entry in script.sent}) == 3

    simulate(main)


def test_a_handlers_error_is_not_retried_and_ejects_no_replica() -> None:
    async def main() -> None:
        script = Script(lambda *_: raising(HandlerError("s", "KeyError", "'x'")))
        executor = executor_of(one_stage(), script)
        with pytest.raises(HandlerError):
            await executor.run("q")
        assert len(script.sent) == 1
        assert not any(replica["ejected"] for replica in executor.status()["stages"]["s"]["replicas"])

    simulate(main)


def test_fast_failing_copy_does_not_beat_a_running_primary() -> None:
    async def main() -> None:
        script = Script(
            lambda _, call: raising(RefusedError("full")) if call.attempt else after(0.5, "primary")
        )
        service = one_stage()
        executor = executor_of(service, script)
        executor.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.1)}))
        endow(executor)
        assert (await executor.run("q")).value == "primary"
        assert [entry.end for entry in script.sent] == ["answered", "RefusedError"]

    simulate(main)


def test_replica_that_is_removed_in_the_middle_of_a_call() -> None:
    async def main() -> None:
        script = Script(
            lambda _, call: after(0.01, "copy") if call.attempt else raising(LostError("gone"), 0.2)
        )
        executor = executor_of(one_stage(), script)
        run = asyncio.ensure_future(executor.run("q"))
        await asyncio.sleep(0.1)
        (first,) = script.sent
        executor.set_replicas("s", [Replica("new", "n", "")])
        assert (await run).value == "copy"
        assert [entry.replica for entry in script.sent] == [first.replica, "new"]

    simulate(main)


def test_a_timeout_error_names_the_errors_of_its_attempts() -> None:
    async def main() -> None:
        async def behave(_: Replica, call: Call) -> Any:
            if call.attempt:
                return await after(100.0)
            raise RefusedError("queue full")

        executor = executor_of(one_stage(timeout_ms=500), Script(behave))
        with pytest.raises(DeadlineError, match="500 ms") as caught:
            await executor.run("q")
        assert isinstance(caught.value.__cause__, RefusedError)

    simulate(main)


# Overload.


class Queue:
    """Replicas that serve one call at a time, in order of arrival."""

    def __init__(self, service_s: float) -> None:
        self.service_s = service_s
        self.locks: dict[str, asyncio.Lock] = {}

    async def __call__(self, replica: Replica, _: Call) -> str:
        async with self.locks.setdefault(replica.id, asyncio.Lock()):
            return await asyncio.sleep(self.service_s, "ok")


LIMITS = Limits(requests=60, always=4, deadline_ms=1000)


def overload(rate: float, **load: Any) -> tuple[Load, Any, Script]:
    async def main() -> tuple[Load, Any, Script]:
        script = Script(Queue(0.02))
        service = one_stage(replicas=2, timeout_ms=2000)
        executor = executor_of(service, script, limits=LIMITS)
        executor.apply(plan_of(service, {"s": Reissue(after_ms=60, fraction=0.05)}))
        return await drive(executor, rate=rate, seconds=20.0, **load), executor.status(), script

    return simulate(main)


def test_overload_is_shed_early_with_a_time_to_come_again() -> None:
    load, status, _ = overload(rate=200.0)  # two replicas serve 100 a second
    shed = [outcome for outcome in load.outcomes if isinstance(outcome.error, OverloadError)]
    assert len(shed) > 500
    assert all(outcome.took == 0.0 for outcome in shed)
    assert all(
        0 < outcome.error.retry_after_s <= 10 for outcome in shed if isinstance(outcome.error, OverloadError)
    )
    served = [outcome for outcome in load.outcomes if outcome.error is None]
    assert len(served) > 0.9 * 100 * 20, "what can be served is served"
    assert status["shed"] == len(shed)
    assert len(load.errors) - len(shed) < 0.02 * len(load.outcomes), "what is let in is answered in time"


def test_reissues_stop_before_anything_is_shed() -> None:
    async def main() -> None:
        script = Script(Queue(0.02))
        service = one_stage(replicas=2, timeout_ms=2000)
        executor = executor_of(service, script, limits=LIMITS)
        executor.apply(plan_of(service, {"s": Reissue(after_ms=60, fraction=0.05)}))
        busy = await drive(executor, rate=80.0, seconds=20.0)
        assert busy.errors == []
        assert executor.status()["reissues"] > 5
        start = asyncio.get_running_loop().time()
        load = await drive(executor, rate=200.0, seconds=20.0)
        first_shed = min(outcome.at for outcome in load.outcomes if isinstance(outcome.error, OverloadError))
        copies = [entry.at - start for entry in script.sent if entry.call.attempt and entry.at > start]
        assert first_shed < 5.0
        assert not [at for at in copies if first_shed < at < 20.0]

    simulate(main)


def test_light_load_is_never_shed() -> None:
    load, status, _ = overload(rate=50.0)
    assert load.errors == []
    assert status["shed"] == 0


def test_lowest_priority_is_shed_first() -> None:
    async def main() -> dict[int, float]:
        executor = executor_of(one_stage(replicas=2, timeout_ms=2000), Script(Queue(0.02)), limits=LIMITS)
        loads = await asyncio.gather(
            *(drive(executor, rate=60.0, seconds=20.0, seed=10 + p, priority=p) for p in (-1, 0, 1))
        )
        return {p: len(load.errors) / len(load.outcomes) for p, load in zip((-1, 0, 1), loads, strict=True)}

    shed = simulate(main)
    assert shed[-1] > 0.6
    assert shed[-1] > shed[0] > shed[1]
    assert shed[1] < 0.1


def test_shedding_ends_with_the_overload() -> None:
    async def main() -> None:
        executor = executor_of(one_stage(replicas=2, timeout_ms=2000), Script(Queue(0.02)), limits=LIMITS)
        assert (await drive(executor, rate=400.0, seconds=10.0)).errors
        await asyncio.sleep(5.0)
        assert (await drive(executor, rate=50.0, seconds=10.0)).errors == []

    simulate(main)


def test_two_stages_share_the_services_budget() -> None:
    """Stage accounts have slack; the service's has none."""

    async def main() -> None:
        service = service_of(
            Stage(name="a", replicas=3, idempotent=True),
            Stage(name="b", after=("a",), replicas=3, idempotent=True),
        )
        rng = random.Random(2)
        script = Script(lambda *_: after(0.2 if rng.random() < 0.1 else 0.01))
        executor = executor_of(service, script)
        reissue = Reissue(after_ms=50, fraction=0.1)
        executor.apply(plan_of(service, {"a": reissue, "b": reissue}, budget=0.04))
        load = await drive(executor, rate=100.0, seconds=60.0)
        status = executor.status()
        assert load.errors == []
        assert (status["ledger"]["worst_10s"] or 0.0) <= LedgerTerms().peak(0.04)
        assert status["ledger"]["spent_share"] == pytest.approx(0.04, rel=0.05)

    simulate(main)


@pytest.mark.parametrize("kind", ["death", "freeze"])
@pytest.mark.parametrize("inflight", [100, 400])
def test_one_death_loses_no_call_that_others_could_serve(kind: str, inflight: int) -> None:
    async def main() -> tuple[list[Any], Any]:
        service = service_of(Stage(name="s", replicas=3, idempotent=True, timeout_ms=4000))
        dead = asyncio.Event()

        async def serve(replica: Replica, call: Call) -> str:
            del call
            if replica.id != BAD:
                return await asyncio.sleep(2.0 if dead.is_set() else 1.0, "ok")
            await dead.wait()
            if kind == "death":
                raise LostError("the connection was closed")
            return await asyncio.sleep(1000.0, "never")

        executor = executor_of(service, Script(serve), limits=Limits(retry_burst=4, retry_share=0.0))
        calls = [asyncio.create_task(executor.run("hi")) for _ in range(inflight)]
        await asyncio.sleep(0.5)
        dead.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        return outcomes, executor.status()

    outcomes, status = simulate(main)
    lost = [str(error) for error in outcomes if isinstance(error, BaseException)]
    assert not lost, lost[:3]
    stage = status["stages"]["s"]
    assert stage["retries"] == 0
    assert stage["resends"] > inflight // 6


def test_calls_of_a_stage_whose_every_replica_dies_go_on_no_further_than_once() -> None:
    async def main() -> int:
        service = service_of(Stage(name="s", replicas=3, idempotent=True))
        script = Script(lambda *_: raising(LostError("the connection was closed")))
        executor = executor_of(service, script, limits=Limits(retry_burst=4, retry_share=0.0))
        for _ in range(20):
            await asyncio.gather(*(executor.run("hi") for _ in range(10)), return_exceptions=True)
        return len(script.sent)

    assert simulate(main) <= 2 * 200
