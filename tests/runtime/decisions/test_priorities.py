"""Priorities under overload: full replicas serve the urgent requests first, and capacity is learned."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from kwiken.base.errors import KwikenError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import RefusedError, UnavailableError, failed_call
from kwiken.runtime.decisions.admission import Admission, Limits
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import MAX_PRIORITY, Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, executor_of, one_stage
from tests.support.runtime.waiting import until

PRIORITIES = range(-MAX_PRIORITY, MAX_PRIORITY + 1)
TOOK_S = 0.4


def serve(load: float, priorities: tuple[int, ...], *, held: int = 32, seconds: float = 20.0) -> Any:
    """Shares served by priority, and goodput as a share of what two replicas can do whose handlers wait."""

    async def main() -> tuple[dict[int, float], float]:
        rng = random.Random(7)
        calls: Counter[str] = Counter()

        async def behave(replica: Replica, _: Call) -> str:
            await asyncio.sleep(0.004 * rng.random())
            if calls[replica.id] >= held // 2:
                raise RefusedError("full", full=True)
            calls[replica.id] += 1
            await asyncio.sleep(TOOK_S * rng.uniform(0.2, 1.8))
            calls[replica.id] -= 1
            return "ok"

        executor = executor_of(one_stage(replicas=2), Script(behave))
        sent: Counter[int] = Counter()
        served: Counter[int] = Counter()

        async def ask(priority: int) -> None:
            sent[priority] += 1
            try:
                await executor.run("q", priority=priority)
            except KwikenError:
                return
            served[priority] += 1

        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        async with asyncio.TaskGroup() as requests:
            while loop.time() < end:
                await asyncio.sleep(rng.expovariate(load * held / TOOK_S))
                requests.create_task(ask(rng.choice(priorities)))
        shares = {priority: served[priority] / sent[priority] for priority in sent}
        return shares, served.total() * TOOK_S / held / seconds

    return simulate(main)


def test_the_urgent_are_served_first_where_handlers_wait() -> None:
    shares, goodput = serve(3.0, (-5, 0, 5))
    assert shares[5] > 0.7  # these alone ask for the whole capacity of the replicas
    assert shares[-5] < 0.05
    assert shares[0] < 0.25
    assert goodput > 0.85


def test_the_more_urgent_of_two_levels_goes_first() -> None:
    shares, _ = serve(3.0, (9, 2))
    assert shares[9] > 1.5 * shares[2]


@pytest.mark.parametrize("priority", [-5, 0, 5])
def test_replicas_stay_busy_where_all_requests_have_one_priority(priority: int) -> None:
    shares, goodput = serve(3.0, (priority,))
    assert goodput > 0.9
    assert shares[priority] > 0.3


def test_no_request_is_shed_at_a_usual_load() -> None:
    shares, _ = serve(0.4, (-5, 0, 5))
    assert shares == {-5: 1.0, 0: 1.0, 5: 1.0}


def test_a_full_replica_costs_the_lowest_first_and_room_comes_back() -> None:
    admission = Admission(Limits())
    admission.inside = 101
    admission.leave_full(0)
    assert admission.room == pytest.approx(100 / 0.85)
    assert admission.enter(0.0, -1) is not None
    assert admission.enter(0.0, 0) is not None
    assert admission.enter(0.0, 1) is None
    for _ in range(1000):  # some ten times as many as were inside
        admission.inside += 1
        admission.leave(0.0, took=0.001, allowed=10.0)
    assert admission.room > 150
    assert admission.enter(0.0, 0) is None


def test_a_request_that_was_refused_for_want_of_room_does_not_count_as_a_quick_one() -> None:
    admission = Admission(Limits(always=0))
    for _ in range(200):
        admission.inside += 1
        admission.leave(0.0, took=9.0, allowed=10.0)
    load = admission.load(0.0)
    for _ in range(200):
        admission.inside += 1
        admission.leave_full(0)
    assert admission.load(0.0) == load > 0.85


def test_higher_priorities_are_admitted_up_to_higher_loads() -> None:
    thresholds = [Limits().shed_threshold(priority) for priority in PRIORITIES]
    assert thresholds == sorted(set(thresholds))
    assert thresholds[-1] == 1.0
    assert Limits().calm_below < thresholds[0]


@given(
    events=st.lists(
        st.tuples(st.sampled_from(["enter", "leave", "full"]), st.sampled_from(PRIORITIES)), max_size=200
    ),
    limit=st.integers(1, 40),
)
@example([("enter", -9), ("enter", -9), ("enter", -9), ("full", -9)], 3)  # room for more than the limit
def test_the_queue_stays_within_its_bounds_and_urgent_calls_go_first(
    events: list[tuple[str, int]], limit: int
) -> None:
    admission = Admission(Limits(requests=limit, always=min(limit, 4)))
    inside = 0
    for event, priority in events:
        if event == "enter":
            let_in = {level: admission.refusal(0.0, level) is None for level in PRIORITIES}
            assert sorted(let_in.values()) == list(let_in.values()), "who is more urgent gets in more easily"
            assert inside or let_in[-MAX_PRIORITY], "somebody must find out when there is room again"
            inside += admission.enter(0.0, priority) is None
        elif inside and event == "leave":
            inside -= 1
            admission.leave(0.0, took=0.0, allowed=10.0)
        elif inside:
            inside -= 1
            admission.leave_full(priority)
            assert inside == 0 or admission.refusal(0.0, priority) is not None, "that many are too many"
        assert admission.inside == inside
        assert 1.0 <= admission.room <= limit
    while inside:
        inside -= 1
        admission.leave(0.0, took=0.0, allowed=10.0)
    for _ in range(500):
        if admission.enter(0.0, 0) is None:
            admission.leave(0.0, took=0.0, allowed=10.0)
    assert admission.room == limit, "it is all found again, be it by one request after another"


def test_a_call_is_refused_for_want_of_room_where_any_replica_says_so() -> None:
    gone, full = RefusedError("gone"), RefusedError("full", full=True)
    for errors, said in (([gone, gone], False), ([gone, full], True)):
        error = failed_call("s", list(errors), expired_s=None)
        assert isinstance(error, UnavailableError)
        assert error.full is said


async def wait(text: str) -> str:
    await asyncio.sleep(30)
    return text


async def test_a_full_replica_refuses_and_the_executor_counts_it() -> None:
    service = Service.of("waiting", [Stage(name="a", handler=wait, idempotent=True)])
    server = ReplicaServer(service, "a", max_inflight=3)
    await server.start()
    try:
        async with FrameTransport(service) as transport:
            executor = Executor(
                service,
                transport,
                replicas={"a": [Replica("a-0", "here", server.url)]},
                clock=SystemClock(),
                rng=random.Random(1),
            )
            held = [asyncio.create_task(executor.run("x")) for _ in range(3)]
            await until(lambda: server.calls.inflight == 3)
            with pytest.raises(UnavailableError) as refused:
                await executor.run("x")
            assert refused.value.full
            assert executor.status()["room"] == 4
            for task in held:
                task.cancel()
            await asyncio.gather(*held, return_exceptions=True)
            executor.set_replicas("a", [Replica("a-1", "here", "http://127.0.0.1:1")])
            with pytest.raises(UnavailableError) as gone:
                await executor.run("x")
            assert not gone.value.full
    finally:
        await server.stop(grace_s=0.0, linger_s=0.0)
