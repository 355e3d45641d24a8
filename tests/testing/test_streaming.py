"""Services whose last stage streams, in the test's process and in virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest

from kwiken.base.errors import DefinitionError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.otel.write.records import AttemptKind, Outcome
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError
from kwiken.testing.client import running
from kwiken.testing.fake_replica import FakeReplica
from kwiken.testing.virtual_loop import virtual_time


class Numbers:
    """A service whose last stage counts; `waits_ms` are the waits before its items, then it ends."""

    def __init__(self, *waits_ms: float) -> None:
        self.waits_ms = waits_ms
        self.opened = self.closed = 0
        self.service = service = Service("numbers")

        @service.stage()
        async def begin(start: int) -> int:
            return start

        @service.stage(
            after=[begin], replicas=2, idempotent=True, timeout_ms=1000, reissue=Reissue(after_ms=50.0)
        )
        async def count(start: int) -> AsyncIterator[int]:
            self.opened += 1
            try:
                for number, wait_ms in enumerate(self.waits_ms, start):
                    if math.isnan(wait_ms):
                        raise ValueError("told to fail")
                    await asyncio.sleep(wait_ms / 1000)
                    yield number
            finally:
                self.closed += 1


@virtual_time
async def test_without_a_taker_the_answer_is_the_list_of_all_items() -> None:
    numbers = Numbers(10, 20, 30)
    async with running(numbers.service) as client:
        assert (await client.ask(5)).value == [5, 6, 7]
    assert numbers.closed == 1


@virtual_time
async def test_items_are_taken_when_they_come_and_the_handler_waits_for_their_taker() -> None:
    numbers = Numbers(10, 20, 30)
    taken: list[tuple[float, Any]] = []
    async with running(numbers.service) as client:
        began = client.now_ms

        async def deliver(items: list[Any]) -> None:
            taken.append((round(client.now_ms - began, 3), items))
            await asyncio.sleep(1.0)

        assert (await client.ask(0, deliver=deliver)).value == []
    assert taken == [(10, [0]), (1030, [1]), (2060, [2])]


@virtual_time
async def test_status_and_records_have_the_time_to_the_first_item() -> None:
    numbers = Numbers(10, 300, 300)
    async with running(numbers.service) as client:
        await client.ask(0)
        assert client.status()["stages"]["count"]["p99_ms"] == pytest.approx(10, rel=0.05)
        assert client.copies() == 0, "copies are due after 50 ms, and none follows the first item"
        (request,) = client.requests
        (attempt,) = client.attempts("count")
        for record in (request, request.stages[1], attempt):
            assert record.first_item_ns is not None
            assert record.first_item_ns - record.start_ns == pytest.approx(10e6, abs=1e3)
            assert record.end_ns - record.start_ns == pytest.approx(610e6, abs=1e3)
        assert request.stages[0].first_item_ns is None


@virtual_time
async def test_the_first_item_decides_the_race_and_the_loser_is_cancelled() -> None:
    numbers = Numbers(10, 100)
    slow, quick = FakeReplica(latency_ms=3_600_000), FakeReplica()
    async with running(numbers.service, replicas={"count": [slow, quick]}) as client:
        answers = [await client.ask(0) for _ in range(10)]
        await client.advance(0)
        assert [answer.value for answer in answers] == [[0, 1]] * 10
        copied = [each for each in client.attempts("count") if each.replica == "count-0"]
        assert copied
        assert client.copies() == slow.cancelled == len(copied)
        assert {each.outcome for each in copied} == {Outcome.CANCELLED}
        assert all(each.end_ns - each.start_ns == pytest.approx(60e6, abs=1e3) for each in copied)


@virtual_time
async def test_two_first_items_at_once_leave_one_stream() -> None:
    numbers = Numbers(0, 100)
    replicas = [FakeReplica(latency_ms=100), FakeReplica(latency_ms=50)]
    async with running(numbers.service, replicas={"count": replicas}) as client:
        for _ in range(20):
            assert (await client.ask(0)).value == [0, 1]
        await client.advance(1000)
    assert 20 < numbers.opened == numbers.closed


@virtual_time
async def test_the_timeout_is_for_each_wait_and_the_deadline_for_all() -> None:
    async with running(Numbers(900, 900, 900).service) as client:
        assert (await client.ask(0)).value == [0, 1, 2]
        with pytest.raises(DeadlineError, match="deadline passed before its last item, after 2 items"):
            await client.ask(0, deadline_ms=2000)
    numbers = Numbers(900, 1100)
    async with running(numbers.service) as client:
        with pytest.raises(DeadlineError, match="no further item within 1000 ms, after 1 items"):
            await client.ask(0)
        await client.advance(0)
        assert numbers.closed == client.status()["stages"]["count"]["calls"] + client.copies()
    async with running(Numbers(1100).service) as client:
        with pytest.raises(DeadlineError, match="no answer"):
            await client.ask(0)


@virtual_time
async def test_a_taker_that_takes_too_long_meets_the_deadline() -> None:
    numbers = Numbers(10, 10)

    async def deliver(items: list[Any]) -> None:
        del items
        await asyncio.sleep(3600)

    async with running(numbers.service) as client:
        with pytest.raises(DeadlineError, match="deadline passed before its last item, after 1 items"):
            await client.ask(0, deadline_ms=500, deliver=deliver)
    assert numbers.closed == 1


@virtual_time
async def test_who_is_cancelled_at_any_moment_ends_the_handler() -> None:
    for moment_ms in (5, 15, 60, 115, 215):
        numbers = Numbers(10, 100, 100)

        async def deliver(items: list[Any]) -> None:
            del items
            await asyncio.sleep(0.01)

        async with running(numbers.service) as client:
            task = asyncio.ensure_future(client.ask(0, deliver=deliver))
            await client.advance(moment_ms)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            assert numbers.closed == 1, moment_ms
            assert client.status()["cancelled"] == 1


@virtual_time
async def test_what_fails_before_the_first_item_is_sent_again_and_what_fails_later_is_not() -> None:
    lost = FakeReplica(failures=[LostError("it died")] * 100)
    numbers = Numbers(10, 10)
    async with running(numbers.service, replicas={"count": [lost, FakeReplica()]}) as client:
        assert [(await client.ask(0)).value for _ in range(5)] == [[0, 1]] * 5
        assert lost.calls
    numbers = Numbers(10, math.nan)
    async with running(numbers.service) as client:
        taken: list[Any] = []

        async def deliver(items: list[Any]) -> None:
            taken.extend(items)

        with pytest.raises(HandlerError, match="told to fail"):
            await client.ask(0, deliver=deliver)
        assert taken == [0]
        assert client.retries() == 0
        assert client.status()["stages"]["count"]["failed"] == 1


@virtual_time
async def test_a_fake_answers_with_its_items_and_wrong_ones_are_refused() -> None:
    async with running(Numbers().service, replicas={"count": [FakeReplica(answer=[7, 8])]}) as client:
        assert (await client.ask(0)).value == [7, 8]
    async with running(Numbers().service, replicas={"count": [FakeReplica(answer=[7, "x"])]}) as client:
        with pytest.raises(HandlerError, match="its answer does not fit"):
            await client.ask(0)
    async with running(Numbers().service) as client:
        assert (await client.ask(0)).value == [], "a stream may be empty"


async def _items(request: int) -> AsyncIterator[int]:
    yield request


async def _unannotated(request: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
    yield request


async def _wrong(request: int) -> list[int]:  # type: ignore[misc]
    yield request


async def _dry(request: int) -> AsyncIterator[int]:
    return _items(request)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"handler": _wrong}, "annotate its answer as AsyncIterator"),
        ({"handler": _dry}, "is annotated to stream, and yields nothing"),
        ({"handler": _items, "fanout": 2}, "streams, and a fan-out cannot stream yet"),
        (
            {"handler": _items, "remote": "http://localhost:1/"},
            "its remote answers once: say `stream` in `remote`",
        ),
    ],
)
def test_a_stage_that_cannot_stream_is_refused_when_it_is_defined(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=f"stage 's': .*{message}"):
        Service.of("svc", [Stage(name="s", **settings)])


class Prefaced:
    """A service whose stream begins with items below 0, which do not count.

    Args:
        moments_ms: moments of the items -2, -1, 0, 1 and 2 at each replica, milliseconds from its call; NaN to
            fail instead.
    """

    def __init__(self, *moments_ms: Sequence[float], **settings: Any) -> None:
        self.opened = self.closed = 0
        self.service = service = Service("prefaced")
        policy: Any = {"accept": lambda item: item[1] >= 0, "reissue": Reissue(after_ms=50.0)} | settings

        @service.stage(replicas=len(moments_ms), idempotent=True, timeout_ms=1000, **policy)
        async def count(start: int) -> AsyncIterator[tuple[int, int]]:
            yield start, 0

        self.replicas = {
            "count": [
                FakeReplica(answer=partial(self._answer, number, moments))
                for number, moments in enumerate(moments_ms)
            ]
        }

    async def _answer(self, replica: int, moments_ms: Sequence[float], start: int) -> Any:
        self.opened += 1
        now_ms = 0.0
        try:
            for number, moment_ms in enumerate(moments_ms, start):
                if math.isnan(moment_ms):
                    raise ValueError("told to fail")
                await asyncio.sleep((moment_ms - now_ms) / 1000)
                now_ms = moment_ms
                yield replica, number
        finally:
            self.closed += 1


@virtual_time
async def test_the_first_item_that_is_acceptable_decides_the_race_and_those_before_it_are_handed_on() -> None:
    world = Prefaced((0, 0, 900, 900, 900), (1, 2, 20, 70, 80))
    async with running(world.service, replicas=world.replicas) as client:
        for _ in range(20):
            taken: list[Any] = []

            async def deliver(items: list[Any], taken: list[Any] = taken) -> None:
                taken.extend(items)

            await client.ask(-2, deliver=deliver)
            assert taken == [(1, number) for number in range(-2, 3)]
        slow = [each for each in client.attempts("count") if each.replica == "count-0"]
        firsts_ms = {
            round((each.first_item_ns - each.start_ns) / 1e6)
            for each in client.requests
            if each.first_item_ns
        }
    assert slow
    assert {each.outcome for each in slow} == {Outcome.CANCELLED}
    assert firsts_ms == {20, 70}, "without a copy, and with one after 50 ms"
    assert world.opened == world.closed


@virtual_time
async def test_a_stream_without_an_acceptable_item_decides_by_its_end() -> None:
    for moments in ((), (10, 20)):
        world = Prefaced(moments, reissue=None)
        async with running(world.service, replicas=world.replicas) as client:
            assert (await client.ask(-5)).value == [(0, number - 5) for number in range(len(moments))]


@virtual_time
async def test_what_fails_before_an_acceptable_item_is_sent_again_and_nothing_of_it_is_handed_on() -> None:
    late = Prefaced((0, 900), (0, 10), reissue=None, attempt_timeout_ms=100)
    async with running(late.service, replicas=late.replicas) as client:
        for _ in range(10):
            assert (await client.ask(-1)).value == [(1, -1), (1, 0)]
        assert client.retries() > 0
    assert late.opened == late.closed > 10
    taken: list[Any] = []

    async def deliver(items: list[Any]) -> None:
        taken.extend(items)

    failing = Prefaced((0, 0, math.nan), reissue=None)
    async with running(failing.service, replicas=failing.replicas) as client:
        with pytest.raises(HandlerError, match="told to fail"):
            await client.ask(-2, deliver=deliver)
    assert taken == []

    def broken(item: object) -> bool:
        raise ValueError(f"unknown {item}")

    world = Prefaced((0, 10), accept=broken, reissue=None)
    async with running(world.service, replicas=world.replicas) as client:
        with pytest.raises(HandlerError, match=r"accept: unknown \(0, 7\)"):
            await client.ask(7)
        await client.advance(1)
    assert world.opened == world.closed


@virtual_time
async def test_a_request_that_is_cancelled_before_an_acceptable_item_ends_the_handler() -> None:
    for moment_ms in (5, 15, 55, 65, 105):
        world = Prefaced((10, 20, 100, 200), (10, 20, 100, 200))
        async with running(world.service, replicas=world.replicas) as client:
            task = asyncio.ensure_future(client.ask(-2))
            await client.advance(moment_ms)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.advance(1)
        assert world.opened == world.closed > 0, moment_ms


def _chain(replicas: int = 1, **settings: Any) -> tuple[Service, list[list[str]]]:
    """Service whose first and last stages stream, and the lists that its second stage got."""
    service, lists = Service("chain"), list[list[str]]()

    @service.stage(replicas=replicas, **settings)
    async def draft(count: int) -> AsyncIterator[str]:
        for number in range(count):
            await asyncio.sleep(0.1)
            if number == 7:
                raise ValueError("no seventh")
            yield f"word {number}"

    @service.stage(after=[draft])
    async def edit(words: list[str] | None) -> list[str]:
        lists.append(words or [])
        return [word.upper() for word in words or []]

    @service.stage(after=[edit])
    async def tell(words: list[str]) -> AsyncIterator[str]:
        for word in words:
            await asyncio.sleep(0.01)
            yield word

    service.check()
    return service, lists


@virtual_time
async def test_items_of_an_inner_stage_are_joined_to_a_list_and_only_those_of_the_last_one_are_taken() -> (
    None
):
    service, lists = _chain()
    taken: list[Any] = []

    async def deliver(items: list[Any]) -> None:
        taken.extend(items)

    async with running(service) as client:
        assert (await client.ask(2)).value == ["WORD 0", "WORD 1"]
        assert (await client.ask(3, deliver=deliver)).value == []
        assert taken == ["WORD 0", "WORD 1", "WORD 2"]
        assert (await client.ask(0)).value == []
        with pytest.raises(HandlerError, match="stage 'draft': ValueError: no seventh"):
            await client.ask(8)
        record = client.requests[1]
    assert lists == [["word 0", "word 1"], ["word 0", "word 1", "word 2"], []]
    assert record.first_item_ns is not None
    assert record.first_item_ns - record.start_ns == pytest.approx(310e6), "of the last stage"
    draft = next(stage for stage in record.stages if stage.name == "draft")
    assert draft.first_item_ns is not None
    assert draft.first_item_ns - draft.start_ns == pytest.approx(100e6)
    assert draft.end_ns - draft.start_ns == pytest.approx(300e6)


@virtual_time
async def test_the_race_of_an_inner_stage_is_decided_by_its_first_item() -> None:
    service, _ = _chain(2, idempotent=True, reissue=Reissue(after_ms=150.0))
    slow, quick = FakeReplica(latency_ms=3000), FakeReplica()
    async with running(service, replicas={"draft": [slow, quick]}) as client:
        for _ in range(10):
            assert (await client.ask(4)).value == [f"WORD {number}" for number in range(4)]
        copied = [each for each in client.attempts("draft") if each.kind is AttemptKind.REISSUE]
        assert len(copied) == len(slow.calls) > 0
        assert {each.outcome for each in copied} == {Outcome.WON}
        assert all(
            request.first_item_ns and request.first_item_ns - request.start_ns < 700e6
            for request in client.requests
        )


@virtual_time
async def test_an_optional_stage_whose_stream_breaks_off_leaves_none() -> None:
    service, lists = _chain(optional=True)
    async with running(service) as client:
        assert (await client.ask(8)).partial
        assert (await client.ask(1)).value == ["WORD 0"]
    assert lists == [[], ["word 0"]]


def test_the_stage_after_a_stream_takes_the_list_of_its_items() -> None:
    async def one(item: int) -> int:
        return item

    async def other(items: list[str]) -> int:
        return len(items)

    async def fitting(items: list[int]) -> int:
        return len(items)

    stage = Stage(name="s", handler=_items)
    for handler, takes in ((one, "int"), (other, r"list\[str\]")):
        service = Service.of("svc", [stage, Stage(name="t", after=("s",), handler=handler)])
        with pytest.raises(
            DefinitionError, match=rf"stage 't': takes {takes} from 's', which streams: .* list\[int\]"
        ):
            service.check()
    Service.of("svc", [stage, Stage(name="t", after=("s",), handler=fitting)]).check()


def test_a_stream_without_annotations_has_items_of_any_type() -> None:
    service = Service.of("svc", [Stage(name="s", handler=_unannotated)])
    assert service.signature("s").output is Any
    assert Service.of("svc", [Stage(name="s", handler=_items)]).signature("s").output is int


def _dripping(**settings: Any) -> Service:
    """A service whose request is the waits before the items of its stream, milliseconds."""
    service = Service("dripping")

    @service.stage(timeout_ms=1000, items_so_far=True, **settings)
    async def drip(waits_ms: list[float]) -> AsyncIterator[int]:
        for number, wait_ms in enumerate(waits_ms):
            await asyncio.sleep(wait_ms / 1000)
            yield number

    return service


@virtual_time
async def test_items_so_far_are_a_partial_answer_when_the_time_for_further_ones_is_up() -> None:
    service = _dripping()
    async with running(service) as client:
        late = await client.ask([10, 10, 3000])
        assert (late.value, late.partial, late.utility) == ([0, 1], True, 0.0)
        short = await client.ask([10, 900, 900], deadline_ms=1000)
        assert (short.value, short.partial) == ([0, 1], True)
        whole = await client.ask([10, 900, 900])
        assert (whole.value, whole.partial, whole.utility) == ([0, 1, 2], False, 1.0)
        taken: list[Any] = []

        async def deliver(items: list[Any]) -> None:
            taken.extend(items)

        assert (await client.ask([10, 10, 3000], deliver=deliver)).partial
        assert taken == [0, 1]
        with pytest.raises(DeadlineError, match="no answer"):
            await client.ask([3000])
        assert client.partial() == 3
        assert client.status()["failed"] == 1


@virtual_time
async def test_a_stage_after_a_stream_gets_the_items_so_far() -> None:
    service = _dripping(utility_weight=1.0)

    @service.stage(after=["drip"])
    async def count(numbers: list[int]) -> int:
        return len(numbers)

    async with running(service) as client:
        answer = await client.ask([10, 10, 10, 5000])
        assert (answer.value, answer.partial) == (3, True)


def test_only_a_stream_has_items_so_far() -> None:
    async def whole(request: int) -> int:
        return request

    with pytest.raises(DefinitionError, match="has items_so_far, but it does not stream"):
        Stage(name="s", handler=whole, items_so_far=True)
    with pytest.raises(DefinitionError, match="items_so_far must be True or False"):
        Stage(name="s", handler=_items, items_so_far=1)  # type: ignore[arg-type]
