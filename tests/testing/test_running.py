"""Services run in the test's process: fakes, the clock in the test's hand, and what was copied or refused."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from msgspec import Struct

from kwiken.base.errors import DefinitionError
from kwiken.model.plan.plan import Budgets, Costs, PartialPolicy, Plan, StagePlan
from kwiken.model.service.remote import HttpCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, OverloadError, RefusedError
from kwiken.runtime.decisions.admission import Limits
from kwiken.testing.client import running
from kwiken.testing.fake_replica import FakeReplica
from kwiken.testing.virtual_loop import virtual_time


class Price(Struct, frozen=True):
    """Price of one item."""

    cents: int


def shop(*, after_ms: float | None = 30.0) -> Service:
    service = Service("shop")

    @service.stage(replicas=2, idempotent=True)
    async def basket(user: str) -> list[str]:
        return [f"{user}-tea", f"{user}-milk"]

    reissue = None if after_ms is None else Reissue(after_ms=after_ms, fraction=0.05)

    @service.stage(after=[basket], fanout=2, replicas=2, idempotent=True, reissue=reissue)
    async def price(items: list[str], *, shard: int) -> Price:
        return Price(len(items[shard]))

    @service.stage(after=[price])
    async def total(prices: Partial[Price]) -> int:
        return sum(price.cents for price in prices.present)

    return service


@virtual_time
async def test_a_service_answers_and_copies_nothing_that_is_quick() -> None:
    async with running(shop()) as client:
        answer = await client.ask("ada")
        assert (answer.value, answer.partial, answer.utility) == (7 + 8, False, 1.0)
        assert (client.copies(), client.retries(), client.refused(), client.partial()) == (0, 0, 0, 0)
        assert [stage.name for stage in client.requests[0].stages] == ["basket", "price", "total"]


async def test_a_service_answers_in_real_time_too() -> None:
    async with running(shop(), replicas={"basket": [FakeReplica(latency_ms=2)]}) as client:
        started, began = client.now_ms, time.monotonic()
        assert (await client.ask("ada")).value == 15
        assert client.now_ms - started <= (time.monotonic() - began) * 1000 + 1
        (attempt,) = client.attempts("basket")
        assert attempt.end_ns - attempt.start_ns >= 1e6


@virtual_time
async def test_a_copy_goes_when_the_clock_says_so_and_rescues_the_request() -> None:
    slow, quick = FakeReplica(latency_ms=400), FakeReplica(latency_ms=5)
    async with running(shop(), replicas={"price": [slow, quick]}) as client:
        request = asyncio.ensure_future(client.ask("ada"))
        await client.advance(29)
        assert client.copies("price") == 0
        assert len(slow.calls) == 1
        began = client.now_ms
        await client.advance(2)
        assert client.copies() == client.copies("price") == 1
        assert (await request).value == 15
        assert client.now_ms - began < 10
        assert slow.cancelled == 1
        assert sorted(
            (attempt.kind, attempt.replica, attempt.outcome)
            for attempt in client.attempts("price")
            if attempt.shard == slow.calls[0].shard
        ) == [("primary", "price-0", "cancelled"), ("reissue", "price-1", "won")]


@virtual_time
async def test_without_a_reissue_the_slow_replica_is_waited_for() -> None:
    fakes = {"price": [FakeReplica(latency_ms=400)]}
    async with running(shop(after_ms=None), replicas=fakes) as client:
        began = client.now_ms
        await client.ask("ada")
        assert client.now_ms - began == pytest.approx(400)
        assert client.copies() == 0


@virtual_time
async def test_latencies_and_failures_are_taken_in_turn() -> None:
    fake = FakeReplica(latency_ms=[10, 20], failures=[None, ValueError("no price"), None])
    service = Service("single")

    @service.stage()
    async def only(request: str) -> str:
        return request.upper()

    async with running(service, replicas={"only": [fake]}) as client:
        took = []
        for number in range(4):
            began = client.now_ms
            if number == 1:
                with pytest.raises(HandlerError, match="stage 'only': ValueError: no price"):
                    await client.ask("a")
            else:
                assert (await client.ask("a")).value == "A"
            took.append(round(client.now_ms - began, 6))
        assert took == [10, 20, 20, 20]
        assert [call.args for call in fake.calls] == [("a",)] * 4


@pytest.mark.parametrize("failure", [RefusedError("full"), LostError("gone")])
def test_a_call_that_a_replica_did_not_serve_is_sent_to_another(failure: Exception) -> None:
    @virtual_time
    async def main() -> None:
        fakes = {"basket": [FakeReplica(failures=failure), FakeReplica(answer=lambda user: [user, user])]}
        async with running(shop(), replicas=fakes) as client:
            for _ in range(20):
                assert (await client.ask("ada")).value == 6
            assert client.retries() == client.retries("basket") == len(fakes["basket"][0].calls) > 0
            assert client.copies() == 0

    main()


@virtual_time
async def test_a_paused_replica_answers_when_it_is_resumed() -> None:
    fake = FakeReplica(latency_ms=5)
    async with running(shop(), replicas={"basket": [fake]}) as client:
        fake.pause()
        request = asyncio.ensure_future(client.ask("ada"))
        await client.advance(500)
        assert len(fake.calls) == 1
        assert not request.done()
        began = client.now_ms
        fake.resume()
        assert (await request).value == 15
        assert client.now_ms == began
        fake.pause()
        with pytest.raises(DeadlineError):
            await client.ask("ada", deadline_ms=100)
        assert client.now_ms - began == pytest.approx(100, abs=1)
        assert fake.cancelled == 1


@virtual_time
async def test_a_pause_costs_calls_of_one_replica_only_until_it_is_noticed() -> None:
    fakes = [FakeReplica(latency_ms=1), FakeReplica(latency_ms=1)]
    async with running(shop(), replicas={"price": fakes}) as client:
        fakes[0].pause()
        for _ in range(20):
            assert (await client.ask("ada")).value == 15
        assert len(fakes[0].calls) < 5
        fakes[0].resume()
        await client.advance(5_000)
        before = len(fakes[0].calls)
        for _ in range(20):
            await client.ask("ada")
        assert len(fakes[0].calls) > before


@virtual_time
async def test_partial_answers_are_counted() -> None:
    service = shop(after_ms=None)
    plan = Plan(
        version=1,
        service="shop",
        created="2024-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(utility_loss=0.5),
        cost=Costs(model="calls", stages={"basket": 0.25, "price": 0.5, "total": 0.25}),
        stages={
            "price": StagePlan(partial=PartialPolicy(cutoff_ms=50.0, wait_ms=None, progress=1.0, loss=0.5))
        },
    )
    fakes = {"price": [FakeReplica(latency_ms=[1, 400])]}
    async with running(service, replicas=fakes, plan=plan) as client:
        answer = await client.ask("ada")
        assert (answer.value, answer.partial, answer.utility, client.partial()) == (7, True, 0.5, 1)
        client.apply(None)
        assert (await client.ask("ada")).partial is False
        assert client.partial() == 1


@virtual_time
async def test_requests_that_are_turned_away_are_counted() -> None:
    fakes = {"basket": [FakeReplica(latency_ms=10)]}
    async with running(shop(), replicas=fakes, limits=Limits(requests=3, always=1)) as client:
        answers = await asyncio.gather(*(client.ask("ada") for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(answer, OverloadError) for answer in answers) == client.refused() > 0
        assert len(client.requests) == 5 - client.refused()


@virtual_time
async def test_cancelled_requests_give_up_their_calls() -> None:
    fake = FakeReplica(latency_ms=1_000)
    async with running(shop(), replicas={"total": [fake]}) as client:
        request = asyncio.ensure_future(client.ask("ada"))
        await client.advance(10)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert (len(fake.calls), fake.cancelled) == (1, 1)
        assert client.requests[0].cancelled


@virtual_time
async def test_fakes_stand_in_for_a_foreign_service() -> None:
    service = Service("trip")

    @service.stage(idempotent=True)
    async def town(name: str) -> str:
        return name.title()

    @service.stage(
        after=[town], remote=HttpCall("http://127.0.0.1:9/{town}", method="GET", addresses=("127.0.0.1:9",))
    )
    async def fare(town: str) -> Price:
        raise NotImplementedError

    fake = FakeReplica(answer=lambda town: {"cents": len(town)})
    async with running(service, replicas={"fare": [fake]}) as client:
        assert (await client.ask("ulm")).value == Price(3)
        assert fake.calls[0].args == ("Ulm",)
    with pytest.raises(DefinitionError, match="stage 'fare': a foreign service serves it; give each fake"):
        async with running(service):
            pass


@virtual_time
async def test_what_the_handler_answers_has_the_type_that_it_says() -> None:
    service = Service("typed")

    @service.stage()
    async def only(request: str) -> Price:
        return Price(1)

    async with running(service, replicas={"only": [FakeReplica(answer={"cents": 7})]}) as client:
        assert (await client.ask("a")).value == Price(7)
    async with running(service, replicas={"only": [FakeReplica(answer={"cents": "7"})]}) as client:
        with pytest.raises(HandlerError, match="its answer does not fit"):
            await client.ask("a")


@virtual_time
async def test_mistakes_are_named() -> None:
    with pytest.raises(DefinitionError, match="nope"):
        async with running(shop(), replicas={"nope": [FakeReplica()]}):
            pass
    wrong: list[float | list[float]] = [-1.0, math.inf, math.nan, []]
    for bad in wrong:
        with pytest.raises(ValueError, match="latency_ms"):
            FakeReplica(latency_ms=bad)
