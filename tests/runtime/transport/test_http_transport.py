"""HTTP transport and replica server over real sockets, within one process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from kwiken.errors import DefinitionError, InputError
from kwiken.runtime import DeadlineError, HandlerError, LostError, RefusedError
from kwiken.runtime.errors import UnfitError
from kwiken.runtime.replica import ReplicaServer
from kwiken.runtime.replica.stage_calls import ServedCall
from kwiken.runtime.transport import Call, HttpTransport, Replica
from kwiken.runtime.transport.wire import Codec
from kwiken.service import Service, Stage
from tests.support.misbehaving import misbehaving, saying
from tests.support.services_http import Ask, service
from tests.support.waiting import found, until


def call_of(
    stage: str, *args: Any, shard: int = 0, deadline_s: float = 5.0, priority: int = 0, span_id: int = 7
) -> Call:
    return Call(
        stage=stage,
        args=args,
        shard=shard,
        attempt=0,
        deadline=time.monotonic() + deadline_s,
        priority=priority,
        trace_id=5,
        span_id=span_id,
    )


def replica_at(url: str) -> Replica:
    return Replica(id="r0", node="here", address=url)


@contextlib.asynccontextmanager
async def serving(
    target: Service, stage: str, **settings: Any
) -> AsyncIterator[tuple[ReplicaServer, Replica]]:
    server = ReplicaServer(target, stage, **settings)
    await server.start()
    try:
        yield server, replica_at(server.url)
    finally:
        await server.stop(grace_s=0.0)


class Watch:
    def __init__(self) -> None:
        self.calls: list[ServedCall] = []

    def call_finished(self, call: ServedCall) -> None:
        self.calls.append(call)


async def test_answers_with_the_handlers_value_and_its_own_load() -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
        reply = await transport.call(replica, call_of("middle", Ask("hi", burn_ms=3), shard=1))
    assert reply.value == "HI1"
    assert reply.inflight == 1
    assert reply.busy_ms is not None
    assert reply.busy_ms > 0.5
    assert reply.latency_ms is not None
    assert reply.latency_ms >= reply.busy_ms * 0.5


async def test_waiting_is_not_busy_time() -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
        reply = await transport.call(replica, call_of("middle", Ask("hi", sleep_ms=80)))
    assert reply.busy_ms is not None
    assert reply.latency_ms is not None
    assert reply.busy_ms < 40
    assert reply.latency_ms >= 80


async def test_raw_answers_can_be_passed_on_unread() -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service, raw=True) as transport:
        reply = await transport.call(replica, call_of("middle", Ask("hi")))
        assert isinstance(reply.value, msgspec.Raw)
        async with serving(service, "last") as (_, final):
            from kwiken.service import Partial

            answer = await transport.call(final, call_of("last", Partial((reply.value, None))))
    assert answer.value == {"said": "HI0"}, "the last is for the gateway to read"


async def test_the_server_reports_each_call_and_its_parent_to_the_observer() -> None:
    watch = Watch()
    async with (
        serving(service, "middle", observer=watch) as (_, replica),
        HttpTransport(service) as transport,
    ):
        await transport.call(replica, call_of("middle", Ask("hi"), shard=1, span_id=99))
        with pytest.raises(HandlerError):
            await transport.call(replica, call_of("middle", Ask("hi", fail=True)))
    good, bad = watch.calls
    assert good.parent is not None
    assert (good.parent.trace_id, good.parent.span_id, good.shard, good.error) == (5, 99, 1, None)
    assert good.end_ns >= good.start_ns
    assert bad.error == "ValueError: told to fail"


async def test_a_handlers_exception_is_final_and_carries_its_text() -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
        with pytest.raises(HandlerError, match="stage 'middle': ValueError: told to fail") as caught:
            await transport.call(replica, call_of("middle", Ask("hi", fail=True)))
    assert caught.value.kind == "ValueError"


async def test_an_input_of_the_wrong_type_names_the_stage_and_place() -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
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


async def test_an_answer_that_cannot_be_sent_is_the_handlers_error() -> None:
    async def odd(question: str) -> object:
        return object()

    odd_service = Service.of("odd", [Stage(name="odd", handler=odd)])
    async with serving(odd_service, "odd") as (_, replica), HttpTransport(odd_service) as transport:
        with pytest.raises(HandlerError, match="TypeError"):
            await transport.call(replica, call_of("odd", "q"))


async def test_a_closed_port_counts_as_refused() -> None:
    async with serving(service, "first") as (_, replica):
        pass
    async with HttpTransport(service) as transport:
        with pytest.raises(RefusedError, match="replica r0: no connection"):
            await transport.call(replica, call_of("first", Ask("hi")))


async def test_the_wrong_stage_behind_an_address_is_a_refusal() -> None:
    async with serving(service, "first") as (_, replica), HttpTransport(service) as transport:
        with pytest.raises(RefusedError, match="replica of stage 'first'"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_a_full_replica_refuses_and_serves_again_later(tmp_path: Path) -> None:
    async with (
        serving(service, "middle", max_inflight=1) as (_, replica),
        HttpTransport(service) as transport,
    ):
        slow = asyncio.create_task(
            transport.call(replica, call_of("middle", Ask("hi", sleep_ms=300, log=str(tmp_path))))
        )
        await until(lambda: found(tmp_path, "started"))
        with pytest.raises(RefusedError, match="1 calls are running or queued"):
            await transport.call(replica, call_of("middle", Ask("no")))
        assert (await slow).value == "HI0"
        assert (await transport.call(replica, call_of("middle", Ask("yes")))).value == "YES0"


async def test_a_passed_deadline_is_not_sent() -> None:
    async with HttpTransport(service) as transport:
        with pytest.raises(DeadlineError):
            await transport.call(replica_at("http://127.0.0.1:9"), call_of("first", Ask("hi"), deadline_s=-1))


async def test_a_call_that_waited_past_its_deadline_does_not_run(tmp_path: Path) -> None:
    """Three calls are read while the first blocks the loop; the third's deadline passes behind the second."""
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
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


async def test_cancelling_the_caller_cancels_the_handler(tmp_path: Path) -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
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


@pytest.mark.parametrize(
    "scenario",
    [
        test_cancelling_the_caller_cancels_the_handler,
        test_a_call_that_waited_past_its_deadline_does_not_run,
        test_a_full_replica_refuses_and_serves_again_later,
    ],
)
def test_also_on_the_faster_loop(scenario: Callable[[Path], Awaitable[None]], tmp_path: Path) -> None:
    """The two event loops differ in how soon they notice a disconnect."""

    async def go() -> None:
        await scenario(tmp_path)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


async def test_a_liveness_probe_succeeds_once_and_only_for_a_live_replica() -> None:
    results: list[bool] = []
    async with serving(service, "middle") as (server, replica), HttpTransport(service) as transport:
        transport.ask(replica, results.append)
        await until(lambda: results)
        assert results == [True]
        await server.stop(grace_s=0.0)
        transport.ask(replica, results.append)
        await until(lambda: len(results) > 1)
    assert results == [True, False]


async def test_a_liveness_probe_of_an_impossible_address_fails() -> None:
    results: list[bool] = []
    async with HttpTransport(service) as transport:
        transport.ask(replica_at("no address"), results.append)
        await until(lambda: results)
    assert results == [False]


async def test_closing_drops_unanswered_probes() -> None:
    results: list[bool] = []
    asked = asyncio.Event()

    async def silent(*_: Any) -> None:
        asked.set()
        await asyncio.sleep(60)

    async with misbehaving(silent) as replica:
        async with HttpTransport(service) as transport:
            transport.ask(replica, results.append)
            await asked.wait()
            assert not results
        assert not any("_ask" in repr(task) for task in asyncio.all_tasks())
    transport.ask(replica, results.append)
    assert not results, "a closed transport asks nobody"


KNOWN = b"kw-busy-ms: 1\r\nkw-inflight: 1\r\nkw-latency-ms: 1\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="closes without a word"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="cut in the head"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n" + KNOWN + b"\r\n\xa2hi", id="cut in the body"
        ),
        pytest.param(b"220 mail.example ESMTP\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xa2hi", id="no kwiken replica"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nkw-busy-ms: x\r\nkw-inflight: 1\r\nkw-latency-ms: 1\r\n\r\n\xa2hi",
            id="a header that is no number",
        ),
        pytest.param(b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", id="an error in no known form"),
        pytest.param(
            b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", id="a redirect"
        ),
    ],
)
async def test_an_answer_that_breaks_off_or_makes_no_sense_is_a_loss(answer: bytes) -> None:
    async with misbehaving(saying(answer)) as replica, HttpTransport(service) as transport:
        with pytest.raises(LostError, match="replica r0"):
            await transport.call(replica, call_of("middle", Ask("hi")))


@pytest.mark.parametrize("raw", [False, True])
async def test_an_answer_of_another_type_names_replica_and_place(*, raw: bool) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + KNOWN + b"\r\n\x05"
    async with misbehaving(saying(answer)) as replica, HttpTransport(service, raw=raw) as transport:
        with pytest.raises(UnfitError, match="stage 'middle': replica r0: its answer does not fit: Expected"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_answers_that_are_passed_on_are_all_read_until_one_fits() -> None:
    said = [msgspec.msgpack.encode(each) for each in (["x" * 2000], ["x" * 2000], "y" * 2000, ["z" * 2000])]
    answers = iter(said)

    async def react(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = next(answers)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n" % len(body))
        writer.write(KNOWN + b"\r\n" + body)

    async with misbehaving(react) as replica, HttpTransport(service, raw=True) as transport:
        for _ in range(2):
            with pytest.raises(UnfitError):
                await transport.call(replica, call_of("middle", Ask("hi")))
        for body in said[2:]:  # the next ones are passed on unread for a while
            assert bytes((await transport.call(replica, call_of("middle", Ask("hi")))).value) == body


UNBOUNDED = [b"Content-Length: 1000000000\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"]


@pytest.mark.parametrize("length", UNBOUNDED)
async def test_an_answer_without_bound_by_no_replica_is_a_loss(length: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n"
    async with misbehaving(saying(answer)) as replica, HttpTransport(service) as transport:
        with pytest.raises(LostError, match="replica r0: not a replica's answer"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_too_long_an_answer_of_a_replica_is_an_error_of_the_stage() -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + UNBOUNDED[0] + KNOWN + b"\r\n"
    async with misbehaving(saying(answer)) as replica, HttpTransport(service) as transport:
        with pytest.raises(HandlerError, match="ReplyTooLarge: replica r0: the answer is 1000000000 bytes"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_too_long_a_call_is_not_sent() -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
        with pytest.raises(HandlerError, match="CallTooLarge: its input is 16777"):
            await transport.call(replica, call_of("middle", Ask("x" * (16 << 20))))


@pytest.mark.parametrize("length", [b"Content-Length: 0\r\n", *UNBOUNDED])
async def test_another_kind_of_server_is_a_refusal(length: bytes) -> None:
    answer = b"HTTP/1.1 404 Not Found\r\n" + length + b"\r\n"
    async with misbehaving(saying(answer)) as replica, HttpTransport(service) as transport:
        with pytest.raises(RefusedError, match="replica r0: answered 404, so it is not a replica"):
            await transport.call(replica, call_of("middle", Ask("hi")))


@pytest.mark.parametrize("busy", ["nan", "inf", "-1", "1_0", "1e400", "", "\u0661"])
@pytest.mark.parametrize("header", ["kw-busy-ms", "kw-latency-ms", "kw-inflight"])
async def test_no_figure_of_a_replica_is_believed_beyond_reason(header: str, busy: str) -> None:
    known = {"kw-busy-ms": "1", "kw-inflight": "1", "kw-latency-ms": "1"} | {header: busy}
    head = "".join(f"{name}: {value}\r\n" for name, value in known.items())
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{head}\r\n".encode() + b"\xa2hi"
    async with misbehaving(saying(answer)) as replica, HttpTransport(service) as transport:
        with pytest.raises(LostError, match=f"not a replica's answer: header {header}: must be a"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_a_deadline_that_has_not_passed_is_no_reason_to_drop_a_call() -> None:
    answer = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n" + KNOWN + b"\r\n"
    async with misbehaving(saying(answer)) as replica, HttpTransport(service) as transport:
        with pytest.raises(LostError, match="replica r0: dropped the call before its deadline"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_the_fanouts_arguments_are_encoded_once_and_never_mixed_up() -> None:
    async with serving(service, "middle") as (_, replica), HttpTransport(service) as transport:
        args = [(Ask(f"t{n}"),) for n in range(20)]
        replies = await asyncio.gather(
            *(transport.call(replica, call_of("middle", *a, shard=s)) for a in args for s in (0, 1))
        )
    assert [r.value for r in replies] == [f"T{n}{s}" for n in range(20) for s in (0, 1)]


async def test_stopping_finishes_what_runs_and_refuses_what_comes(tmp_path: Path) -> None:
    server = ReplicaServer(service, "middle")
    await server.start()
    replica = replica_at(server.url)
    async with HttpTransport(service) as transport:
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


async def test_stopping_is_bounded(tmp_path: Path) -> None:
    server = ReplicaServer(service, "middle")
    await server.start()
    async with HttpTransport(service) as transport:
        slow = asyncio.create_task(
            transport.call(
                replica_at(server.url), call_of("middle", Ask("hi", sleep_ms=60_000, log=str(tmp_path)))
            )
        )
        await until(lambda: found(tmp_path, "started"))
        await asyncio.wait_for(server.stop(grace_s=0.1, linger_s=0.0), 5.0)
        with pytest.raises(LostError):
            await slow


async def test_a_port_in_use_is_named() -> None:
    async with serving(service, "first") as (server, _):
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(InputError, match=f"127.0.0.1:{port}: the port is in use"):
            await ReplicaServer(service, "first", port=port).start()


def test_an_unknown_stage_is_named() -> None:
    async def go() -> None:
        ReplicaServer(service, "nope")

    with pytest.raises(DefinitionError, match="no stage 'nope'"):
        asyncio.run(go())
