"""The hedger on a real event loop: one test for each row of the table in docs/build/hedge.md, and bad input."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import threading
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from kwiken.base.errors import DefinitionError, InputError
from kwiken.hedge.hedger import Hedger
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, CatchUpPolicy, Costs, Plan, StagePlan
from kwiken.model.service.stage import Reissue
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.waiting import until

SOON_MS = 5.0


class Calls:
    """Attempts of calls: each waits for its time or error; records starts, ends and cancellations."""

    def __init__(self, *outcomes: tuple[float, Any]) -> None:
        self.outcomes = outcomes
        self.started: list[int] = []
        self.cancelled: list[int] = []
        self.ended: list[int] = []

    async def __call__(self, number: int) -> Any:
        self.started.append(number)
        wait_s, outcome = self.outcomes[number]
        try:
            await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            self.cancelled.append(number)
            await asyncio.sleep(0)  # ends only after another turn of the loop
            raise
        finally:
            self.ended.append(number)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def plan_of(*names: str, after_ms: float = SOON_MS, copies: int = 1, **ledger: float) -> Plan:
    policy = Reissue(after_ms=after_ms, copies=copies)
    return Plan(
        version=1,
        service="shop",
        created="",
        profile="",
        budgets=Budgets(reissue=0.05),
        cost=Costs(model="calls", stages={name: 1 / len(names) for name in names}),
        stages={name: StagePlan(reissue=policy) for name in names},
        ledger=LedgerTerms(**ledger),
    )


async def test_a_fast_call_sends_no_copy_and_creates_no_task() -> None:
    hedger, tasks = Hedger.fixed({"s": 1000.0}), len(asyncio.all_tasks())
    calls = Calls((0.0, "first"))

    async def send(number: int) -> Any:
        assert len(asyncio.all_tasks()) == tasks
        return await calls(number)

    assert await hedger.call("s", send, read=True) == "first"
    assert calls.started == [0]
    assert hedger.counts["s"].answered == 1


async def test_a_copy_wins_and_the_primary_is_cancelled_and_awaited() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((30.0, "slow"), (0.0, "copy"))
    assert await hedger.call("s", calls, read=True) == "copy"
    assert calls.started == [0, 1]
    assert calls.cancelled == [0]
    assert sorted(calls.ended) == [0, 1]
    counts = hedger.counts["s"]
    assert (counts.answered, counts.copies, counts.won) == (1, 1, 1)


async def test_the_primary_wins_and_the_copy_is_cancelled_and_awaited() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((0.1, "first"), (30.0, "slow"))
    assert await hedger.call("s", calls, read=True) == "first"
    assert calls.cancelled == [1]
    assert sorted(calls.ended) == [0, 1]


async def test_a_copy_that_fails_does_not_win() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((0.1, "first"), (0.0, OSError("refused")))
    assert await hedger.call("s", calls, read=True) == "first"
    assert calls.started == [0, 1]


async def test_a_primary_that_fails_waits_for_its_copy() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((0.05, OSError("reset")), (0.1, "copy"))
    assert await hedger.call("s", calls, read=True) == "copy"


async def test_an_answer_that_is_not_accepted_does_not_win() -> None:
    hedger, calls, closed = Hedger.fixed({"s": SOON_MS}), Calls((0.1, 200), (0.0, 503)), []

    async def discard(status: int) -> None:
        closed.append(status)

    got = await hedger.call("s", calls, read=True, accept=lambda status: status < 500, discard=discard)
    assert (got, closed) == (200, [503])


async def test_without_an_accepted_answer_the_first_one_is_returned() -> None:
    hedger, calls, closed = Hedger.fixed({"s": SOON_MS}), Calls((0.05, 500), (0.0, 503)), []

    async def discard(status: int) -> None:
        closed.append(status)

    got = await hedger.call("s", calls, read=True, accept=lambda status: status < 500, discard=discard)
    assert (got, closed) == (500, [503])
    assert hedger.counts["s"].failed == 1


async def test_if_all_fail_the_error_of_the_primary_is_raised_with_a_note() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((0.05, OSError("reset")), (0.0, ValueError("bad")))
    with pytest.raises(OSError, match="reset") as caught:
        await hedger.call("s", calls, read=True)
    assert caught.value.__notes__ == ["copy 1 of this call failed too: ValueError: bad"]


@pytest.mark.parametrize("fails", [(0.0,), (0.03, 0.0)])
async def test_a_failed_call_leaves_no_garbage(fails: tuple[float, ...]) -> None:
    hedger = Hedger.fixed({"s": SOON_MS})

    async def send(number: int) -> None:
        await asyncio.sleep(fails[number])
        raise OSError

    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(OSError):
            await hedger.call("s", send, read=True)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {type(each).__module__ for each in gc.garbage}
        assert not {kind for kind in kinds if kind.startswith("kwiken")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def test_writes_get_no_copies() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((0.05, "first"))
    assert await hedger.call("s", calls, read=False) == "first"
    assert calls.started == [0]


async def test_cancelling_the_caller_cancels_all_attempts_and_waits_for_them() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((30.0, 1), (30.0, 2))
    task = asyncio.create_task(hedger.call("s", calls, read=True))
    await until(lambda: calls.started == [0, 1])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(calls.cancelled) == sorted(calls.ended) == [0, 1]


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancellation_at_any_turn_reaches_the_caller_and_closes_answers(turns: int) -> None:
    """The caller is cancelled some turns of the loop after a copy was sent that wins at once."""
    hedger, closed = Hedger.fixed({"s": 1.0}), []
    copied, ended = asyncio.Event(), []

    async def send(number: int) -> int:
        try:
            if number:
                copied.set()
                return number
            await asyncio.sleep(30)
        finally:
            ended.append(number)
        return number

    async def discard(answer: int) -> None:
        closed.append(answer)

    task = asyncio.create_task(hedger.call("s", send, read=True, discard=discard))
    await copied.wait()
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert closed in ([1], [])
    else:
        assert task.result() == 1
    assert sorted(ended) == [0, 1]


async def test_a_time_limit_around_a_call_holds() -> None:
    hedger, calls = Hedger.fixed({"s": SOON_MS}), Calls((30.0, 1), (30.0, 2))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await hedger.call("s", calls, read=True)
    assert sorted(calls.ended) == [0, 1]
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_time_limit_inside_an_attempt_ends_that_attempt_only() -> None:
    hedger = Hedger.fixed({"s": SOON_MS})

    async def send(number: int) -> int:
        async with asyncio.timeout(0.03 if number == 0 else 30):
            await asyncio.sleep(30 if number == 0 else 0.08)
        return number

    assert await hedger.call("s", send, read=True) == 1


async def test_calls_nest() -> None:
    hedger = Hedger.fixed({"outer": 20.0, "inner": SOON_MS})
    inner = [Calls((30.0, 1), (30.0, 2)), Calls((30.0, 1), (0.0, "inner copy"))]

    async def outer(number: int) -> Any:
        return await hedger.call("inner", inner[number], read=True)

    assert await hedger.call("outer", outer, read=True) == "inner copy"
    assert [sorted(calls.ended) for calls in inner] == [[0, 1], [0, 1]]


async def test_a_task_group_inside_an_attempt_is_cancelled_whole() -> None:
    hedger, ended = Hedger.fixed({"s": SOON_MS}), []

    async def part() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(1)

    async def send(number: int) -> int:
        if number == 0:
            async with asyncio.TaskGroup() as group:
                group.create_task(part())
                group.create_task(part())
        return number

    assert await hedger.call("s", send, read=True) == 1
    assert ended == [1, 1]


async def test_an_attempt_that_is_cancelled_from_within_fails_alone() -> None:
    hedger = Hedger.fixed({"s": SOON_MS})

    async def send(number: int) -> int:
        if number == 0:
            await asyncio.sleep(0.03)
            raise asyncio.CancelledError
        await asyncio.sleep(0.06)
        return number

    assert await hedger.call("s", send, read=True) == 1


async def test_a_primary_that_ignores_its_cancellation_does_not_replace_the_winner() -> None:
    hedger, closed = Hedger.fixed({"s": SOON_MS}), []

    async def send(number: int) -> int:
        if number == 0:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return 0
        return number

    async def discard(answer: int) -> None:
        closed.append(answer)

    assert await hedger.call("s", send, read=True, discard=discard) == 1
    assert closed == [0]


async def test_all_copies_of_the_plan_are_sent_and_no_more() -> None:
    hedger = Hedger(plan_of("s", copies=3))
    calls = Calls((0.3, 0), *[(30.0, number) for number in (1, 2, 3, 4)])
    assert await hedger.call("s", calls, read=True) == 0
    assert calls.started == [0, 1, 2, 3]


def test_a_copy_that_fails_brings_the_next_one_forward() -> None:
    calls = Calls((30.0, 0), (0.0, OSError("refused")), (0.0, OSError("refused")), (0.0, "third"))

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        began, hedger = loop.time(), Hedger(plan_of("s", after_ms=100.0, copies=4), clock=loop.time)
        assert await hedger.call("s", calls, read=True) == "third"
        return loop.time() - began

    assert simulate(main) == pytest.approx(0.1, abs=0.005)


async def test_stages_share_one_budget_that_only_successes_fill() -> None:
    """Calls of two stages outlast their time-out; copies are bounded by the successes before, then by none."""
    hedger = Hedger(plan_of("a", "b", floor_per_s=0.0))
    for _ in range(200):
        await hedger.call("a", Calls((0.0, 1)), read=True)
    failing = [
        hedger.call(stage, Calls((0.05, OSError()), (0.0, OSError())), read=True) for stage in "ab" * 150
    ]
    results = await asyncio.gather(*failing, return_exceptions=True)
    assert all(isinstance(result, OSError) for result in results)
    counts = hedger.counts
    sent = counts["a"].copies + counts["b"].copies
    # The burst is 50 requests' budget, so 2.5 requests of two calls each; 200 calls are 100 requests.
    assert 0 < sent <= 0.05 * 2 * (50 + 100)
    assert min(counts["a"].denied, counts["b"].denied) > 0
    before = sent
    for stage in "ab" * 10:
        with pytest.raises(OSError):
            await hedger.call(stage, Calls((0.02, OSError()), (0.0, OSError())), read=True)
    counts = hedger.counts
    assert counts["a"].copies + counts["b"].copies <= max(before, 15)


async def test_an_exhausted_budget_leaves_the_primary_alone() -> None:
    hedger = Hedger(plan_of("s", floor_per_s=0.0))
    hedger.apply(changed(hedger.plan, budgets=Budgets(reissue=0.0)))
    calls = Calls((0.05, "first"), (0.0, "copy"))
    assert await hedger.call("s", calls, read=True) == "first"
    assert calls.started == [0]


def changed(plan: Plan, **changes: Any) -> Plan:
    return msgspec.structs.replace(plan, **changes)


async def test_a_new_plan_is_in_force_at_once_and_keeps_what_was_spent() -> None:
    hedger = Hedger.fixed({"s": SOON_MS})
    await hedger.call("s", Calls((30.0, 0), (0.0, 1)), read=True)
    hedger.apply(plan_of("s", "t", after_ms=1000.0))
    calls = Calls((0.05, "first"))
    assert await hedger.call("s", calls, read=True) == "first"
    assert hedger.counts["s"].copies == 1
    assert set(hedger.counts) == {"s", "t"}


def test_one_hedger_serves_many_loops_in_many_threads() -> None:
    hedger = Hedger.fixed({"s": SOON_MS}, budget=1.0)
    wins: list[Any] = []

    async def many() -> None:
        wins.extend([await hedger.call("s", Calls((30.0, 0), (0.0, 1)), read=True) for _ in range(5)])

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wins == [1] * 20
    assert hedger.counts["s"].answered == 20
    asyncio.run(many())


# The door: decorator, `async with`, files.


async def test_a_decorated_function_learns_the_number_of_its_attempt() -> None:
    hedger = Hedger.fixed({"s": SOON_MS})

    @hedger.hedged("s", read=True)
    async def look(key: str, *, attempt: int = 0) -> str:
        """Docs."""
        await asyncio.sleep(0.0 if attempt else 30.0)
        return f"{key} from replica {attempt}"

    assert await look("k") == "k from replica 1"
    assert look.__name__ == "look"


async def test_a_block_leaves_the_winners_context_and_closes_others() -> None:
    hedger, log = Hedger.fixed({"s": SOON_MS}), []

    class Response:
        def __init__(self, number: int) -> None:
            self.number = number

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            log.append(f"left {self.number}")

        def close(self) -> None:
            log.append(f"closed {self.number}")

    async def send(number: int) -> Response:
        if number == 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
        return Response(number)

    async with hedger.open("s", send, read=True) as response:
        assert response.number == 1
        assert log == ["closed 0"]
    assert log == ["closed 0", "left 1"]
    (await hedger.open("s", send, read=False)).close()


async def test_a_plans_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan_of("rank").to_json())
    assert await Hedger.load(path).call("rank", Calls((30.0, 0), (0.0, 1)), read=True) == 1


async def test_a_random_draw_decides_once_for_all_copies() -> None:
    plan = plan_of("s", copies=2)
    stages = {"s": StagePlan(reissue=Reissue(after_ms=1.0, probability=0.5, copies=2))}
    hedger = Hedger(changed(plan, stages=stages, ledger=LedgerTerms(floor_per_s=1000)), rng=random.Random(1))
    started = set()
    for _ in range(20):
        calls = Calls((0.02, 0), (30.0, 1), (30.0, 2))
        await hedger.call("s", calls, read=True)
        started.add(len(calls.started))
    assert started == {1, 3}


@pytest.mark.parametrize(
    ("after_ms", "budget", "message"),
    [
        ({}, 0.05, "after_ms: names no stage"),
        ({"s": -1.0}, 0.05, "stage 's': after_ms must be from 0"),
        ({"s": float("nan")}, 0.05, "stage 's': after_ms must be from 0"),
        ({"s": "soon"}, 0.05, "stage 's': must be a name with a delay"),
        ({"s": None}, 0.05, "stage 's': must be a name with a delay"),
        ({"": 5.0}, 0.05, "stage '': must be a name"),
        ({3: 5.0}, 0.05, "stage 3: must be a name"),
        ({"s": 5.0}, 0.0, "budget: must be a share"),
        ({"s": 5.0}, 1.5, "budget: must be a share"),
        ({"s": 5.0}, float("nan"), "budget: must be a share"),
    ],
)
def test_wrong_settings_are_refused(after_ms: Any, budget: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hedger.fixed(after_ms, budget=budget)


def test_an_unknown_stage_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="stage 'x': is not in the plan; its stages are a, b"):
        Hedger.fixed({"a": 1.0, "b": 1.0}).call("x", Calls(), read=True).close()


def test_only_coroutine_functions_are_decorated() -> None:
    hedger = Hedger.fixed({"s": 1.0})
    with pytest.raises(DefinitionError, match="only an `async def`"):
        hedger.hedged("s", read=True)(lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match="is not in the plan"):

        @hedger.hedged("t", read=True)
        async def function() -> None: ...


def test_plans_that_need_a_gateway_are_refused_whole() -> None:
    hedger = Hedger(plan_of("s"))
    late = {"s": StagePlan(catch_up=CatchUpPolicy(after_ms=5.0))}
    with pytest.raises(InputError, match="stage 's': has partial answers or catch-up"):
        hedger.apply(changed(hedger.plan, stages=late))
    assert hedger.plan == plan_of("s")


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"version": 1}')
    with pytest.raises(InputError, match=r"plan\.json"):
        Hedger.load(path)
    with pytest.raises(InputError, match="not a regular file"):
        Hedger.load("/dev/zero")


async def test_an_attempt_that_raises_before_it_is_awaited_fails_like_any_other() -> None:
    def send(number: int) -> Any:
        raise KeyError(number)

    with pytest.raises(KeyError):
        await Hedger.fixed({"s": 1.0}).call("s", send, read=True)
