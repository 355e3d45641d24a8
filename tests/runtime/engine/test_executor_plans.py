"""Plans under traffic and virtual time: changed, refused, and what stays never reissued."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.plan.accounts import CALL, REQUEST
from kwiken.model.plan.ledger_terms import BURST_COPIES, LedgerTerms, stage_share
from kwiken.model.plan.plan import CatchUpPolicy, PartialPolicy, Plan
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, after, endow, executor_of, one_stage, plan_of, service_of

CUT = PartialPolicy(cutoff_ms=100.0, wait_ms=None, progress=1.0, loss=0.01)


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


@pytest.mark.parametrize("asks", [True, False])
def test_a_pause_costs_one_copy_and_not_one_for_every_other_call(asks: bool) -> None:
    """A copy that wins ends the call that showed that the replica is paused: the replica must be avoided all the same."""

    async def main() -> int:
        service = one_stage()
        loop = asyncio.get_running_loop()
        pause = loop.time() + 1.0, loop.time() + 1.9

        def paused(replica: Replica) -> bool:
            return replica.id.endswith("0") and pause[0] <= loop.time() < pause[1]

        async def serve(replica: Replica, _: Call) -> str:
            await asyncio.sleep(pause[1] - loop.time() if paused(replica) else 0.001)
            return "ok"

        # None: a paused replica answers no probe, like a stopped process.
        script = Script(serve, alive=lambda replica: None if asks and paused(replica) else True)
        executor = executor_of(service, script)
        executor.apply(plan_of(service, {"s": Reissue(after_ms=5, fraction=0.5)}, budget=1.0))
        endow(executor)
        for _ in range(200):
            await executor.run("q")
            await asyncio.sleep(0.009)
        return sum(sent.call.attempt for sent in script.sent)

    copies = simulate(main)
    assert copies == 1 if asks else copies > 1  # a paused replica that answers probes deceives the picker


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
    other = plan_of(service_of(Stage(name="s", idempotent=True), name="other"))
    stranger = plan_of(service_of(Stage(name="t", idempotent=True)), {"t": Reissue(after_ms=1)})
    return [
        (plan_of(service, {"s": Reissue(after_ms=1)}), DefinitionError, "not idempotent"),
        (plan_of(two, partial={"s": CUT}), DefinitionError, "no fan-out"),
        (
            plan_of(service, late={"s": CatchUpPolicy(after_ms=1, reissue=True)}),
            DefinitionError,
            "not idempotent",
        ),
        (plan_of(two, late={"s": CatchUpPolicy(after_ms=1, threads=2)}), DefinitionError, "2 threads"),
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
        policy = Reissue(after_ms=100, fraction=0.05)
        plan = plan_of(service, {"s": policy}, budget=1.0, ledger=LedgerTerms(floor_per_s=0.0))
        executor.apply(plan)
        now = asyncio.get_running_loop().time()
        executor.ledger.service.earn(1000 * REQUEST, now)
        executor.states["s"].account.earn(100 * CALL, now)
        for _ in range(20):
            await asyncio.gather(*(executor.run("q") for _ in range(30)))
            executor.apply(plan)
        assert 8 < executor.status()["reissues"] <= BURST_COPIES + 100 * stage_share(policy)

    simulate(main)


def test_a_plan_in_force_that_wants_more_than_it_earns_takes_nothing_from_a_tried_one() -> None:
    """Both stay within the budget together, and the tried plan copies what it would copy alone."""

    async def main() -> None:
        service = one_stage(replicas=4)
        numbers = itertools.count()

        async def serve(_: Replica, call: Call) -> str:
            await asyncio.sleep(0.2 if call.attempt == 0 and next(numbers) % 40 == 0 else 0.01)
            return "ok"

        executor = executor_of(service, Script(serve))
        terms = LedgerTerms(floor_per_s=0.0)
        greedy = plan_of(service, {"s": Reissue(after_ms=5, fraction=0.05)}, ledger=terms)
        tried = plan_of(service, {"s": Reissue(after_ms=50, fraction=0.05)}, ledger=terms)
        executor.apply(greedy)
        runs = []
        for number in range(12_000):
            if number == 4_000:  # the account is empty
                executor.apply(greedy, trial=tried, trial_share=0.5, control_share=0.05)
            runs.append(asyncio.ensure_future(executor.run("q")))
            await asyncio.sleep(0.01)
        await asyncio.gather(*runs)
        status = executor.status()
        assert status["ledger"]["spent"] <= 0.05 * status["ledger"]["work"] + 5
        slow = {
            name: sum(count for cell, count in arm["cells"].items() if 2 ** (int(cell) / 16) > 0.1)
            / sum(arm["cells"].values())
            for name, arm in status["arms"].items()
        }
        assert slow["tried"] < 0.003, slow
        assert slow["planned"] > 0.015, slow

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
