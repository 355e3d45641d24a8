"""What both transports and their replica servers promise, over real sockets within one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import uvloop

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, RefusedError
from kwiken.runtime.replica.stage_calls import ServedCall
from kwiken.runtime.wire.transport.wire import Codec
from tests.support.peers.protocols import PROTOCOLS, Protocol, call_of
from tests.support.runtime.waiting import found, until
from tests.support.services.http import Ask, service


class Watch:
    def __init__(self) -> None:
        self.calls: list[ServedCall] = []

    def call_finished(self, call: ServedCall) -> None:
        self.calls.append(call)


@PROTOCOLS
async def test_answers_with_the_handlers_value_and_its_own_load(protocol: Protocol) -> None:
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        reply = await transport.call(replica, call_of("middle", Ask("hi", burn_ms=3), shard=1))
    assert reply.value == "HI1"
    assert reply.inflight == 1
    assert reply.busy_ms is not None
    assert reply.busy_ms > 0.5
    assert reply.latency_ms is not None
    assert reply.latency_ms >= 3  # the handler's loop ends by the clock


class Big(msgspec.Struct):
    number: int


@PROTOCOLS
async def test_a_number_beyond_64_bits_is_the_requests_fault_or_the_answers(protocol: Protocol) -> None:
    first, second = (
        Stage(name="first", handler=size_of),
        Stage(name="second", after=("first",), handler=size_of),
    )
    numbers = Service.of("numbers", [first, second])
    async with protocol.serving(numbers, "first") as (_, replica), protocol.transport(numbers) as transport:
        for number in (1 << 64, -(1 << 63) - 1, 10**300):
            with pytest.raises(InputError, match="request: a whole number has more than 64 bits"):
                await transport.call(replica, call_of("first", Big(number)))
            with pytest.raises(HandlerError, match=r"stage 'second'.*more than 64 bits"):
                await transport.call(replica, call_of("second", Big(number)))
        for number in ((1 << 64) - 1, -(1 << 63)):
            assert (await transport.call(replica, call_of("first", Big(number)))).value == number


async def size_of(big: Big) -> int:
    return big.number


@PROTOCOLS
async def test_waiting_is_not_busy_time(protocol: Protocol) -> None:
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        reply = await transport.call(replica, call_of("middle", Ask("hi", sleep_ms=80)))
    assert reply.busy_ms is not None
    assert reply.latency_ms is not None
    assert reply.busy_ms < 40
    assert reply.latency_ms >= 80


@PROTOCOLS
async def test_raw_answers_can_be_passed_on_unread(protocol: Protocol) -> None:
    async with (
        protocol.serving(service, "middle") as (_, replica),
        protocol.transport(service, raw=True) as transport,
    ):
        reply = await transport.call(replica, call_of("middle", Ask("hi")))
        assert isinstance(reply.value, msgspec.Raw)
        async with protocol.serving(service, "last") as (_, final):
            from kwiken.model.service.stage import Partial

            answer = await transport.call(final, call_of("last", Partial((reply.value, None))))
    assert answer.value == {"said": "HI0"}, "the last is for the gateway to read"


@PROTOCOLS
async def test_the_server_reports_each_call_and_its_parent_to_the_observer(protocol: Protocol) -> None:
    watch = Watch()
    async with (
        protocol.serving(service, "middle", observer=watch) as (_, replica),
        protocol.transport(service) as transport,
    ):
        await transport.call(replica, call_of("middle", Ask("hi"), shard=1, span_id=99))
        with pytest.raises(HandlerError):
            await transport.call(replica, call_of("middle", Ask("hi", fail=True)))
    good, bad = watch.calls
    assert good.parent is not None
    assert (good.parent.trace_id, good.parent.span_id, good.shard, good.error) == (5, 99, 1, None)
    assert good.end_ns >= good.start_ns
    assert bad.error == "ValueError: told to fail"


@PROTOCOLS
async def test_a_handlers_exception_is_final_and_carries_its_text(protocol: Protocol) -> None:
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        with pytest.raises(HandlerError, match="stage 'middle': ValueError: told to fail") as caught:
            await transport.call(replica, call_of("middle", Ask("hi", fail=True)))
    assert caught.value.kind == "ValueError"


@PROTOCOLS
async def test_an_input_of_the_wrong_type_names_the_stage_and_place(protocol: Protocol) -> None:
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        with pytest.raises(HandlerError, match=r"stage 'middle'.*text"):
            await transport.call(replica, call_of("middle", {"text": 3}))


async def test_an_input_of_the_wrong_type_names_the_parent_that_answered_it() -> None:
    async def text(request: str) -> str:
        return request

    async def asks(request: str) -> list[Ask]:
        return [Ask(request)]

    async def both(asks: list[Ask], text: str) -> str:
        return text

    stages = [
        Stage(name="text", handler=text),
        Stage(name="asks", handler=asks),
        Stage(name="both", handler=both, after=("asks", "text")),
    ]
    codec = Codec(Service.of("two_parents", stages), "both")
    encode = msgspec.msgpack.encode
    with pytest.raises(InputError) as whole:
        codec.inputs(encode(([Ask("hi")], 3)))
    assert str(whole.value) == "stage 'both': its input from 'text' does not fit: Expected `str`, got `int`"
    with pytest.raises(InputError) as part:
        codec.inputs(encode(([{"text": 3}], "hi")))
    assert str(part.value) == (
        "stage 'both': its input from 'asks' does not fit: Expected `str`, got `int` - at `$[0].text`"
    )


@PROTOCOLS
async def test_an_answer_that_cannot_be_sent_is_the_handlers_error(protocol: Protocol) -> None:
    async def odd(question: str) -> object:
        return object()

    odd_service = Service.of("odd", [Stage(name="odd", handler=odd)])
    async with (
        protocol.serving(odd_service, "odd") as (_, replica),
        protocol.transport(odd_service) as transport,
    ):
        with pytest.raises(HandlerError, match="TypeError"):
            await transport.call(replica, call_of("odd", "q"))


@PROTOCOLS
async def test_a_closed_port_counts_as_refused(protocol: Protocol) -> None:
    async with protocol.serving(service, "first") as (_, replica):
        pass
    async with protocol.transport(service) as transport:
        with pytest.raises(RefusedError, match="replica r0: no connection"):
            await transport.call(replica, call_of("first", Ask("hi")))


@PROTOCOLS
async def test_the_wrong_stage_behind_an_address_is_a_refusal(protocol: Protocol) -> None:
    async with protocol.serving(service, "first") as (_, replica), protocol.transport(service) as transport:
        with pytest.raises(RefusedError, match="replica of stage 'first'"):
            await transport.call(replica, call_of("middle", Ask("hi")))


@PROTOCOLS
async def test_a_full_replica_refuses_and_serves_again_later(protocol: Protocol, tmp_path: Path) -> None:
    async with (
        protocol.serving(service, "middle", max_inflight=1) as (_, replica),
        protocol.transport(service) as transport,
    ):
        slow = asyncio.create_task(
            transport.call(replica, call_of("middle", Ask("hi", sleep_ms=300, log=str(tmp_path))))
        )
        await until(lambda: found(tmp_path, "started"))
        with pytest.raises(RefusedError, match="1 calls are running or queued"):
            await transport.call(replica, call_of("middle", Ask("no")))
        assert (await slow).value == "HI0"
        assert (await transport.call(replica, call_of("middle", Ask("yes")))).value == "YES0"


@PROTOCOLS
async def test_a_passed_deadline_is_not_sent(protocol: Protocol) -> None:
    async with protocol.transport(service) as transport:
        with pytest.raises(DeadlineError):
            await transport.call(
                protocol.replica_at("http://127.0.0.1:9"),
                call_of("first", Ask("hi"), deadline_s=-1),
            )


@PROTOCOLS
async def test_a_call_that_waited_past_its_deadline_does_not_run(protocol: Protocol, tmp_path: Path) -> None:
    """Three calls are read while the first blocks the loop; the third's deadline passes behind the second."""
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        await asyncio.gather(  # connections for all
            *(transport.call(replica, call_of("middle", Ask("hi"))) for _ in range(3))
        )
        calls = [
            call_of("middle", Ask("a", burn_ms=60)),
            call_of("middle", Ask("b", burn_ms=60)),
            call_of("middle", Ask("c", log=str(tmp_path)), deadline_s=0.05),
        ]
        *_, third = await asyncio.gather(
            *(transport.call(replica, call) for call in calls), return_exceptions=True
        )
    assert isinstance(third, DeadlineError)
    assert not found(tmp_path, "started")


@PROTOCOLS
async def test_cancelling_the_caller_cancels_the_handler(protocol: Protocol, tmp_path: Path) -> None:
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        task = asyncio.create_task(
            transport.call(replica, call_of("middle", Ask("hi", sleep_ms=10_000, log=str(tmp_path))))
        )
        await until(lambda: found(tmp_path, "started"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: found(tmp_path, "cancelled"))
        reply = await transport.call(replica, call_of("middle", Ask("next")))
    assert reply.inflight == 1  # the cancelled call is no longer counted
    assert not found(tmp_path, "ended")


@PROTOCOLS
@pytest.mark.parametrize(
    "scenario",
    [
        test_cancelling_the_caller_cancels_the_handler,
        test_a_call_that_waited_past_its_deadline_does_not_run,
        test_a_full_replica_refuses_and_serves_again_later,
    ],
)
def test_also_on_the_faster_loop(
    scenario: Callable[[Protocol, Path], Awaitable[None]], protocol: Protocol, tmp_path: Path
) -> None:
    """The two event loops differ in how soon they notice a disconnect."""

    async def go() -> None:
        await scenario(protocol, tmp_path)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


@PROTOCOLS
async def test_a_liveness_probe_succeeds_once_and_only_for_a_live_replica(protocol: Protocol) -> None:
    results: list[bool] = []
    async with (
        protocol.serving(service, "middle") as (server, replica),
        protocol.transport(service) as transport,
    ):
        transport.ask(replica, results.append)
        await until(lambda: results)
        assert results == [True]
        await server.stop(grace_s=0.0)
        transport.ask(replica, results.append)
        await until(lambda: len(results) > 1)
    assert results == [True, False]


@PROTOCOLS
async def test_a_liveness_probe_of_an_impossible_address_fails(protocol: Protocol) -> None:
    results: list[bool] = []
    async with protocol.transport(service) as transport:
        transport.ask(protocol.replica_at("no address"), results.append)
        await until(lambda: results)
    assert results == [False]


@PROTOCOLS
async def test_too_long_a_call_is_not_sent(protocol: Protocol) -> None:
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        with pytest.raises(HandlerError, match="CallTooLarge: its input is 16777"):
            await transport.call(replica, call_of("middle", Ask("x" * (16 << 20))))


@PROTOCOLS
async def test_the_fanouts_arguments_are_encoded_once_and_never_mixed_up(protocol: Protocol) -> None:
    async with protocol.serving(service, "middle") as (_, replica), protocol.transport(service) as transport:
        args = [(Ask(f"t{n}"),) for n in range(20)]
        replies = await asyncio.gather(
            *(transport.call(replica, call_of("middle", *a, shard=s)) for a in args for s in (0, 1))
        )
    assert [r.value for r in replies] == [f"T{n}{s}" for n in range(20) for s in (0, 1)]


@PROTOCOLS
async def test_stopping_finishes_what_runs_and_refuses_what_comes(protocol: Protocol, tmp_path: Path) -> None:
    server = protocol.server(service, "middle")
    await server.start()
    replica = protocol.replica_at(server.url)
    async with protocol.transport(service) as transport:
        await asyncio.gather(*(transport.call(replica, call_of("middle", Ask("warm"))) for _ in range(2)))
        slow = asyncio.create_task(
            transport.call(replica, call_of("middle", Ask("hi", sleep_ms=300, log=str(tmp_path))))
        )
        await until(lambda: found(tmp_path, "started"))
        stop = asyncio.create_task(server.stop(grace_s=5.0))
        await asyncio.sleep(0.02)
        with pytest.raises(RefusedError):
            await transport.call(replica, call_of("middle", Ask("late")))
        assert (await slow).value == "HI0"
        await stop
        with pytest.raises(RefusedError):
            await transport.call(replica, call_of("middle", Ask("gone")))


@PROTOCOLS
async def test_stopping_is_bounded(protocol: Protocol, tmp_path: Path) -> None:
    server = protocol.server(service, "middle")
    await server.start()
    async with protocol.transport(service) as transport:
        slow = asyncio.create_task(
            transport.call(
                protocol.replica_at(server.url),
                call_of("middle", Ask("hi", sleep_ms=60_000, log=str(tmp_path))),
            )
        )
        await until(lambda: found(tmp_path, "started"))
        await asyncio.wait_for(server.stop(grace_s=0.1, linger_s=0.0), 5.0)
        with pytest.raises(LostError):
            await slow


@PROTOCOLS
async def test_a_port_in_use_is_named(protocol: Protocol) -> None:
    async with protocol.serving(service, "first") as (server, _):
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(InputError, match=f"127.0.0.1:{port}: the port is in use"):
            await protocol.server(service, "first", port=port).start()


@PROTOCOLS
def test_an_unknown_stage_is_named(protocol: Protocol) -> None:
    async def go() -> None:
        protocol.server(service, "nope")

    with pytest.raises(DefinitionError, match="no stage 'nope'"):
        asyncio.run(go())
