"""Calls of foreign gRPC services: types by reflection or descriptors, messages, streams, and each fault."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service.remote import GrpcCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.base.errors import (
    DeadlineError,
    HandlerError,
    LostError,
    RefusedError,
    UnavailableError,
    UnfitError,
)
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.local import LocalTransport
from tests.support.peers.foreign_grpc import Ask, Stock, descriptor_set, grpc_server
from tests.support.peers.foreign_http import call_of, executing
from tests.support.runtime.garbage import garbage_of
from tests.support.runtime.waiting import PATIENCE_S

URL = "grpc://inventory.example:50051/shop.Inventory/Get"
LIST = "grpc://inventory.example:50051/shop.Inventory/List"
GONE = Replica("gone", "n", "http://127.0.0.1:9")


class Wanted(msgspec.Struct):
    sku: str
    in_store: list[int] = []


class Roomy(msgspec.Struct):
    room: int


class Stored(msgspec.Struct):
    sku: str
    pieces: int
    stamp: bytes = b""
    counted_at: dt.datetime | None = None


def service_of(remote: GrpcCall | str, answer: Any = Stored, **settings: Any) -> Service:
    """A service of one foreign stage, `stock`, that takes a `Wanted`."""

    async def stock(wanted: Wanted) -> Any:
        raise NotImplementedError

    stock.__annotations__ = {"wanted": Wanted, "return": answer}
    return Service.of("shop", [Stage(name="stock", handler=stock, remote=remote, **settings)])


@contextlib.asynccontextmanager
async def calling(service: Service) -> AsyncIterator[ForeignTransport]:
    async with ForeignTransport(service, LocalTransport(service)) as transport:
        yield transport


async def answered(service: Service, replica: Replica, wanted: Any) -> Any:
    async with calling(service) as transport:
        return (await transport.call(replica, call_of("stock", wanted))).value


async def tea(ask: Any, context: Any) -> Any:
    return Stock(sku=ask.sku, pieces=2**40)


async def test_messages_metadata_and_deadline_are_as_stated() -> None:
    seen: dict[str, Any] = {}

    async def get(ask: Any, context: Any) -> Any:
        seen.update(ask=ask, left=context.time_remaining(), more=dict(context.invocation_metadata()))
        found = Stock(sku=ask.sku, pieces=2**40, stamp=b"\0\1")
        found.counted_at.FromSeconds(1)
        return found

    remote = GrpcCall(URL, message={"sku": "<{request.sku}>", "inStore": "{request.in_store}"})
    async with grpc_server(get) as replica:
        found = await answered(service_of(remote), replica, Wanted("tea", [3, 2**50]))
    epoch = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert found == Stored("<tea>", 2**40, b"\0\1", epoch)
    assert seen["ask"] == Ask(sku="<tea>", in_store=[3, 2**50])
    assert 3.0 < seen["left"] < 5.5
    assert seen["more"]["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"


async def test_copies_and_retries_say_how_many_attempts_went_before() -> None:
    seen: list[str | bytes | None] = []

    async def get(ask: Any, context: Any) -> Any:
        seen.append(dict(context.invocation_metadata()).get("grpc-previous-rpc-attempts"))
        return Stock(sku=ask.sku, pieces=1)

    async with grpc_server(get) as replica, calling(service_of(GrpcCall(URL))) as transport:
        for attempt in range(3):
            call = call_of("stock", Wanted("tea"))
            call.attempt = attempt
            await transport.call(replica, call)
    assert seen == [None, "1", "2"]


async def test_types_come_from_descriptors_where_there_is_no_reflection(tmp_path: Path) -> None:
    path = tmp_path / "inventory.pb"
    async with grpc_server(tea, reflects=False) as replica:
        for whole in (True, False):  # well-known types may be missing in the set
            path.write_bytes(descriptor_set(whole=whole))
            remote = GrpcCall(URL, descriptors=str(path))
            assert (await answered(service_of(remote), replica, Wanted("tea"))).pieces == 2**40
        service = service_of(GrpcCall(URL))
        with pytest.raises(HandlerError, match=r"stage 'stock': UnfitMethod: .* no server reflection"):
            await answered(service, replica, Wanted("tea"))
        async with calling(service) as transport:
            with pytest.raises(DefinitionError, match=r"stage 'stock': remote: .* no server reflection"):
                await transport.check({"stock": [replica]})


async def test_without_declared_types_answers_are_the_json_form_of_messages() -> None:
    service = Service.of("shop", [Stage(name="stock", remote=URL)])
    async with grpc_server(tea) as replica:
        assert await answered(service, replica, {"sku": "tea"}) == {
            "sku": "tea",
            "pieces": str(2**40),
            "stamp": "",
        }


@pytest.mark.parametrize(
    ("remote", "answer", "message"),
    [
        (
            GrpcCall(URL.replace("Inventory", "Store")),
            Stored,
            "no service 'shop.Store'; it has: .*shop.Inventory",
        ),
        (GrpcCall(URL.replace("/Get", "/Got")), Stored, "no method 'Got'; it has: Get, List, Put"),
        (GrpcCall(URL.replace("/Get", "/Put")), Stored, "takes a stream of requests"),
        (
            GrpcCall(URL, message={"id": 1}),
            Stored,
            "message shop.Ask has no field 'id', which the stage sends",
        ),
        (GrpcCall(URL, message=[1]), Stored, "message shop.Ask must be an object"),
        (GrpcCall(URL), dict[str, Wanted], None),
        (GrpcCall(URL), Wanted, None),
        (GrpcCall(URL), Roomy, "no field 'room', which"),
    ],
)
async def test_a_mistake_is_one_line_at_the_start(remote: GrpcCall, answer: Any, message: str | None) -> None:
    async with grpc_server(tea) as replica, calling(service_of(remote, answer)) as transport:
        if message is None:
            await transport.check({"stock": [GONE, replica]})
            return
        with pytest.raises(DefinitionError, match=rf"^stage 'stock': remote: .*{message}"):
            await transport.check({"stock": [GONE, replica]})


async def test_a_declared_input_that_does_not_fit_the_message_is_a_mistake() -> None:
    class Other(msgspec.Struct):
        article: str

    async def stock(other: Other) -> Stored:
        raise NotImplementedError

    stock.__annotations__ = {"other": Other, "return": Stored}
    service = Service.of("shop", [Stage(name="stock", handler=stock, remote=URL)])
    async with grpc_server(tea) as replica, calling(service) as transport:
        with pytest.raises(DefinitionError, match=r"shop.Ask has no field 'article', which the stage sends"):
            await transport.check({"stock": [replica]})


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), (b"\xff\xff", "is not a descriptor set"), (b"", "no service")],
)
async def test_wrong_descriptors_are_one_line_at_the_start(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "inventory.pb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DefinitionError, match=f"^stage 'stock': remote: .*{message}"):
        async with calling(service_of(GrpcCall(URL, descriptors=str(path)))):
            pass


async def test_a_service_that_is_down_at_the_start_is_asked_later(caplog: pytest.LogCaptureFixture) -> None:
    service = service_of(URL)
    async with calling(service) as transport:
        await transport.check({"stock": [GONE]})
        assert "stage 'stock': its service cannot be asked for its types yet: replica gone" in caplog.text
        with pytest.raises(RefusedError, match="its types are unknown"):
            await transport.call(GONE, call_of("stock", Wanted("tea")))
        async with grpc_server(tea) as replica:
            reply = await transport.call(replica, call_of("stock", Wanted("tea")))
            assert reply.value == Stored("tea", 2**40)


@pytest.mark.parametrize(
    ("code", "idempotent", "kind"),
    [
        ("NOT_FOUND", True, HandlerError),
        ("INVALID_ARGUMENT", False, HandlerError),
        ("INTERNAL", True, HandlerError),
        ("UNKNOWN", True, HandlerError),
        ("RESOURCE_EXHAUSTED", True, RefusedError),
        ("RESOURCE_EXHAUSTED", False, LostError),
        ("UNAVAILABLE", True, LostError),
        ("UNAVAILABLE", False, LostError),
        ("CANCELLED", True, LostError),
        ("DEADLINE_EXCEEDED", True, LostError),
        ("UNIMPLEMENTED", False, RefusedError),
    ],
)
async def test_a_code_becomes_the_runtimes_error(code: str, idempotent: bool, kind: type[Exception]) -> None:
    async def get(ask: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode[code], "no such\narticle")

    async def listing(ask: Any, context: Any) -> AsyncIterator[Any]:
        yield Stock(sku="one")
        await context.abort(grpc.StatusCode[code], "no such\narticle")

    async with grpc_server(get, listing) as replica:
        with pytest.raises(kind, match="stage 'stock'") as caught:
            await answered(service_of(URL, idempotent=idempotent), replica, Wanted("tea"))
        assert code in str(caught.value) or code == "CANCELLED"
        stream = await answered(service_of(LIST, list[Stored], idempotent=idempotent), replica, Wanted("tea"))
        del stream  # its transport is closed; below, the same within one
        async with calling(service_of(LIST, list[Stored], idempotent=idempotent)) as transport:
            begun = (await transport.call(replica, call_of("stock", Wanted("tea")))).value
            with pytest.raises(kind, match="stage 'stock'"):
                await begun.rest()


async def test_values_that_do_not_fit_the_message_are_errors() -> None:
    service = Service.of("shop", [Stage(name="stock", remote=URL)])
    async with grpc_server(tea) as replica:
        for wanted in ({"sku": 1}, {"id": "tea"}, "tea", None, [1]):
            with pytest.raises(InputError, match=r"stage 'stock': its input: does not fit message shop.Ask"):
                await answered(service, replica, wanted)


async def test_an_answer_of_another_type_is_unfit() -> None:
    async with grpc_server(tea) as replica:
        with pytest.raises(
            UnfitError, match=r"replica .*: its answer does not fit: Expected `bool`, got `str`"
        ):
            await answered(service_of(URL, dict[str, bool]), replica, Wanted("tea"))


async def test_an_answer_that_is_too_long_is_an_error() -> None:
    async def get(ask: Any, context: Any) -> Any:
        return Stock(sku="x" * (17 << 20))

    async with grpc_server(get) as replica:
        with pytest.raises(HandlerError, match="ReplyTooLarge"):
            await answered(service_of(URL), replica, Wanted("tea"))
        with pytest.raises(HandlerError, match="CallTooLarge"):
            await answered(service_of(URL), replica, Wanted("x" * (17 << 20)))


async def test_deadlines_and_cancellation_reach_the_service() -> None:
    ended: asyncio.Queue[str] = asyncio.Queue()
    began = asyncio.Event()

    async def get(ask: Any, context: Any) -> Any:
        began.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.put_nowait(ask.sku)
            raise

    async with grpc_server(get) as replica, calling(service_of(URL)) as transport:
        with pytest.raises(DeadlineError):
            await transport.call(replica, call_of("stock", Wanted("late"), within_s=0.2))
        async with asyncio.timeout(PATIENCE_S):
            assert await ended.get() == "late"
        began.clear()
        task = asyncio.create_task(transport.call(replica, call_of("stock", Wanted("tea"))))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE_S):
            assert await ended.get() == "tea"


async def test_the_first_message_of_a_stream_wins_the_race_and_the_rest_follows_from_the_winner() -> None:
    told: list[str] = []
    ended = asyncio.Event()

    async def slow(ask: Any, context: Any) -> AsyncIterator[Any]:
        told.append("slow began")
        try:
            await asyncio.sleep(30)
            yield Stock()
        finally:
            told.append("slow ended")
            ended.set()

    async def quick(ask: Any, context: Any) -> AsyncIterator[Any]:
        told.append("quick began")
        yield Stock(sku="a", pieces=1)
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()  # the loser is cancelled at the winner's first message
        for number in range(2, 5):
            yield Stock(sku="a", pieces=number)

    async with grpc_server(listing=slow) as one, grpc_server(listing=quick) as other:
        service = service_of(LIST, list[Stored], idempotent=True, reissue=Reissue(after_ms=50))
        async with executing(service, {"stock": [one]}) as executor:
            task = asyncio.create_task(executor.run(Wanted("tea")))
            async with asyncio.timeout(PATIENCE_S):
                while not told:  # noqa: ASYNC110 - the server's own event is elsewhere
                    await asyncio.sleep(0.002)
                executor.set_replicas("stock", [one, other])
                assert [each.pieces for each in (await task).value] == [1, 2, 3, 4]
            assert told == ["slow began", "quick began", "slow ended"]
            assert executor.status()["reissues"] == 1


async def test_a_stream_may_be_empty_and_is_cancelled_with_its_request() -> None:
    ended = asyncio.Event()
    began = asyncio.Event()

    async def listing(ask: Any, context: Any) -> AsyncIterator[Any]:
        try:
            if ask.sku:
                yield Stock(sku=ask.sku)
                began.set()
                await asyncio.sleep(30)
        finally:
            ended.set()

    service = service_of(LIST, list[Stored])
    async with grpc_server(listing=listing) as replica, executing(service, {"stock": [replica]}) as executor:
        assert (await executor.run(Wanted(""))).value == []
        ended.clear()
        task = asyncio.create_task(executor.run(Wanted("tea")))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
        ended.clear()
        with pytest.raises(DeadlineError):
            await executor.run(Wanted("tea"), deadline_ms=300)
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()


async def test_a_call_that_never_left_goes_to_another_replica_even_if_it_may_not_run_twice() -> None:
    async with grpc_server(tea) as good, executing(service_of(URL), {"stock": [GONE, good]}) as executor:
        for _ in range(8):
            assert (await executor.run(Wanted("tea"))).value == Stored("tea", 2**40)
        executor.set_replicas("stock", [GONE])
        with pytest.raises(UnavailableError):
            await executor.run(Wanted("tea"))


@pytest.mark.parametrize(
    ("statuses", "name", "kept"),
    [
        (None, "", True),
        ({"": True}, "", True),
        ({"": False}, "", False),
        ({"": True, "shop.Inventory": False}, "shop.Inventory", False),
        ({"": True}, "shop.Inventory", False),
    ],
)
async def test_health_is_asked_by_the_services_own_check(
    statuses: dict[str, bool] | None, name: str, kept: bool
) -> None:
    service = service_of(GrpcCall(URL, health=name))
    async with (
        grpc_server(tea, statuses={"": True, name: True}) as good,
        grpc_server(tea, statuses=statuses) as other,
        calling(service) as transport,
    ):
        for _ in range(2):
            left = await transport.healthy("stock", [good, other, GONE])
        assert left == ([good, other] if kept else [good])
        call = call_of("stock", Wanted("tea"))
        await transport.call(good, call)
        assert call.status == "OK"
        heard: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        transport.ask(good, heard.set_result)
        assert await heard


@pytest.mark.parametrize(
    ("code", "pushback", "kind", "pause_s"),
    [
        ("UNAVAILABLE", "1500", LostError, 1.5),
        ("RESOURCE_EXHAUSTED", "1500", LostError, 1.5),  # the stage is not idempotent
        ("UNAVAILABLE", "-1", HandlerError, None),
        ("RESOURCE_EXHAUSTED", "soon", HandlerError, None),
        ("UNAVAILABLE", "9" * 50, HandlerError, None),
        ("NOT_FOUND", "1500", HandlerError, None),
    ],
)
async def test_pushback_is_a_pause_or_the_end(
    code: str, pushback: str, kind: type[Exception], pause_s: float | None
) -> None:
    async def get(ask: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode[code], "no", (("grpc-retry-pushback-ms", pushback),))

    async with grpc_server(get) as replica, calling(service_of(URL, Any)) as transport:
        call = call_of("stock", Wanted("tea"))
        with pytest.raises(kind) as caught:
            await transport.call(replica, call)
        assert getattr(caught.value, "pause_s", None) == pause_s
        assert call.status == code


@pytest.mark.parametrize("code", ["NOT_FOUND", "UNAVAILABLE", "CANCELLED"])
async def test_failed_calls_leave_no_cycle_of_references(code: str) -> None:
    async def get(ask: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode[code], "no")

    async def listing(ask: Any, context: Any) -> AsyncIterator[Any]:
        yield Stock(sku="one")
        await context.abort(grpc.StatusCode[code], "no")

    async with grpc_server(get, listing) as replica:
        for remote in (URL, LIST):
            async with executing(service_of(remote, Any), {"stock": [replica]}) as executor:

                async def fail(executor: Executor = executor) -> None:
                    with contextlib.suppress(HandlerError, LostError):
                        await executor.run(Wanted("tea"))

                await fail()
                left = await garbage_of(fail)
                assert not {name for name in left if name in {"HedgedCall", "Call", "Request", "Attempt"}}
