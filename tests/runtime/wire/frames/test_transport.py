"""Frame transport and answers of many kinds of servers, over real sockets within one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime import HandlerError, LostError, RefusedError
from kwiken.runtime.base.errors import UnfitError
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.messages import (
    CallFrame,
    CancelFrame,
    EndedFrame,
    Frame,
    PieceFrame,
)
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from tests.support.peers.misbehaving import (
    answer,
    answering,
    framed,
    misbehaving,
    read_frame,
    saying,
    scripted_replica,
)
from tests.support.peers.protocols import Relay, call_of
from tests.support.runtime.waiting import until
from tests.support.services.http import Ask, service

HI = msgspec.msgpack.encode("hi")


async def test_closing_drops_unanswered_probes() -> None:
    results: list[bool] = []
    asked = asyncio.Event()

    async def silent(*_: Any) -> None:
        asked.set()
        await asyncio.sleep(60)

    async with misbehaving(silent) as replica:
        async with FrameTransport(service) as transport:
            transport.ask(replica, results.append)
            await asked.wait()
            assert not results
        assert not any("_ask" in repr(task) for task in asyncio.all_tasks())
    transport.ask(replica, results.append)
    assert not results, "a closed transport asks nobody"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda _: b"", id="closes without a word"),
        pytest.param(lambda n: framed(answer(n, HI))[:-1], id="cut in the answer"),
        pytest.param(lambda n: framed(answer(n, b"x" * 2000, size=3000)), id="cut in a long answer"),
        pytest.param(lambda _: b"220 mail.example ESMTP\r\n\r\n", id="no frame"),
        pytest.param(lambda n: framed(answer(n + 1, HI)), id="of an unknown call"),
        pytest.param(lambda n: framed(answer(n, b"oops", status=500)), id="an error in no known form"),
    ],
)
async def test_an_answer_that_breaks_off_or_makes_no_sense_is_a_loss(make: Callable[[int], bytes]) -> None:
    async with (
        scripted_replica(answering(make, then_close=True)) as replica,
        FrameTransport(service) as transport,
    ):
        with pytest.raises(LostError, match="replica r0"):
            await transport.call(replica, call_of("middle", Ask("hi")))


@pytest.mark.parametrize("raw", [False, True])
async def test_an_answer_of_another_type_names_replica_and_place(*, raw: bool) -> None:
    async with (
        scripted_replica(answering(lambda n: framed(answer(n, b"\x05")))) as replica,
        FrameTransport(service, raw=raw) as transport,
    ):
        with pytest.raises(UnfitError, match="stage 'middle': replica r0: its answer does not fit: Expected"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_answers_that_are_passed_on_are_all_read_until_one_fits() -> None:
    said = [msgspec.msgpack.encode(each) for each in (["x" * 2000], ["x" * 2000], "y" * 2000, ["z" * 2000])]
    answers = iter(said)
    async with (
        scripted_replica(answering(lambda n: framed(answer(n, next(answers))))) as replica,
        FrameTransport(service, raw=True) as transport,
    ):
        for _ in range(2):
            with pytest.raises(UnfitError):
                await transport.call(replica, call_of("middle", Ask("hi")))
        for body in said[2:]:  # the next ones are passed on unread for a while
            assert bytes((await transport.call(replica, call_of("middle", Ask("hi")))).value) == body


async def test_too_long_an_answer_is_an_error_of_the_stage() -> None:
    async with (
        scripted_replica(answering(lambda n: framed(answer(n, b"x" * 2000, size=10**9)))) as replica,
        FrameTransport(service) as transport,
    ):
        with pytest.raises(HandlerError, match="ReplyTooLarge: replica r0: the answer is 1000000000 bytes"):
            await transport.call(replica, call_of("middle", Ask("hi")))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "not a replica that speaks kwiken's frames: .*HTTP/1.1 404",
        ),
        (b"HTTP/1.1 400 Bad\r\n", "not a replica that speaks kwiken's frames"),
        (
            b"KWIKEN-FRAMES 2\r\n",
            "no common version of frames: it said 'version 2', and this gateway speaks 1",
        ),
        (
            b"KWIKEN-FRAMES none: this replica speaks versions 3 to 4\r\n",
            "no common version of frames: it said 'this replica speaks versions 3 to 4'",
        ),
    ],
)
async def test_another_server_or_version_is_a_refusal_in_one_clear_line(said: bytes, reason: str) -> None:
    async with misbehaving(saying(said)) as replica, FrameTransport(service) as transport:
        with pytest.raises(RefusedError, match=f"replica r0: no connection: {reason}"):
            await transport.call(replica, call_of("middle", Ask("hi")))


@pytest.mark.parametrize(
    "change",
    [{name: value} for name in ("busy_ms", "latency_ms") for value in (float("nan"), -1.0, 1e10)]
    + [{"inflight": -1}, {"inflight": 10**9}],
)
async def test_no_figure_of_a_replica_is_believed_beyond_reason(change: dict[str, Any]) -> None:
    async with (
        scripted_replica(answering(lambda n: framed(answer(n, HI, **change)))) as replica,
        FrameTransport(service) as transport,
    ):
        with pytest.raises(LostError, match="not a replica's answer: load report: must have"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_a_deadline_that_has_not_passed_is_no_reason_to_drop_a_call() -> None:
    async with (
        scripted_replica(answering(lambda n: framed(answer(n, b"", status=504)))) as replica,
        FrameTransport(service) as transport,
    ):
        with pytest.raises(LostError, match="replica r0: dropped the call before its deadline"):
            await transport.call(replica, call_of("middle", Ask("hi")))


async def test_a_cancelled_call_is_cancelled_by_a_frame_and_its_work_is_noted() -> None:
    seen: list[Frame] = []

    async def react(call: CallFrame, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(call)
        seen.append(await read_frame(reader))
        writer.write(framed(EndedFrame(call.id, 12.5)))

    worked: list[float] = []
    async with scripted_replica(react) as replica, FrameTransport(service) as transport:
        call = call_of("middle", Ask("hi"))
        call.note_work = worked.append
        task = asyncio.create_task(transport.call(replica, call))
        await until(lambda: seen)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: worked)
    assert seen[1:] == [CancelFrame(1)]
    assert worked == [12.5]


async def test_a_replica_says_what_work_a_cancelled_call_had_done() -> None:
    server = ReplicaServer(service, "middle")
    await server.start()
    worked: list[float] = []
    async with FrameTransport(service) as transport:
        call = call_of("middle", Ask("hi", burn_ms=20, sleep_ms=60_000))
        call.note_work = worked.append
        replica = Replica("r0", "here", server.url)
        task = asyncio.create_task(transport.call(replica, call))
        await until(lambda: server.calls.cpu_ns or server.calls.inflight)
        await transport.call(replica, call_of("middle", Ask("next")))  # the first has worked then
        task.cancel()
        await until(lambda: worked)
    await server.stop(grace_s=0.0, linger_s=0.0)
    assert 1.0 < worked[0] < 10_000


async def test_a_replica_says_what_work_a_stream_had_done_that_was_cancelled_before_its_first_item() -> None:
    begun = asyncio.Event()

    async def works_then_waits(burn_ms: float) -> AsyncIterator[int]:
        end = time.thread_time() + burn_ms / 1e3
        while time.thread_time() < end:
            pass
        begun.set()
        await asyncio.sleep(3600)
        yield 0

    waits = Service.of("waits", [Stage(name="tell", handler=works_then_waits)])
    server = ReplicaServer(waits, "tell")
    await server.start()
    worked: list[float] = []
    async with FrameTransport(waits) as transport:
        call = call_of("tell", 20.0)
        call.note_work = worked.append
        task = asyncio.create_task(transport.call(Replica("r0", "here", server.url), call))
        await begun.wait()
        task.cancel()
        await until(lambda: worked)
    await server.stop(grace_s=0.0, linger_s=0.0)
    assert 19.0 < worked[0] < 10_000


async def test_a_small_call_does_not_wait_behind_a_large_one() -> None:
    """The large call's body is stopped half-way by its receiver; the small call is answered meanwhile."""
    large: list[int] = []

    async def react(call: CallFrame, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if call.size > 1 << 20:
            large.append(call.id)
        else:
            writer.write(framed(answer(call.id, HI)))

    async with scripted_replica(react) as replica, FrameTransport(service) as transport:
        first = asyncio.create_task(transport.call(replica, call_of("middle", Ask("x" * (8 << 20)))))
        await until(lambda: large)
        for _ in range(3):
            assert (await transport.call(replica, call_of("middle", Ask("hi")))).value == "hi"
        first.cancel()


async def test_large_bodies_pass_both_ways_beside_small_ones() -> None:
    server = ReplicaServer(service, "middle")
    await server.start()
    replica = Replica("r0", "here", server.url)
    texts = ["a" * 5_000_000, "b", "c" * 300_000, "d" * 70_000, "e" * 2_000_000, *"fghij"]
    async with FrameTransport(service) as transport:
        replies = await asyncio.gather(
            *(transport.call(replica, call_of("middle", Ask(text))) for text in texts)
        )
    await server.stop(grace_s=0.0, linger_s=0.0)
    assert [reply.value for reply in replies] == [f"{text.upper()}0" for text in texts]


async def test_a_piece_of_an_answer_is_not_taken_for_another_call() -> None:
    """Of two long answers in alternate pieces each call gets its own."""
    calls: list[int] = []
    size = 5000

    async def react(call: CallFrame, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(call.id)
        if len(calls) == 2:
            bodies = [msgspec.msgpack.encode(letter * size) for letter in "ab"]
            for start in range(0, len(bodies[0]), 1100):
                for number, body in zip(calls, bodies, strict=True):
                    piece = body[start : start + 1100]
                    begins = answer(number, piece, size=len(body))
                    writer.write(framed(PieceFrame(number, piece) if start else begins))

    async with scripted_replica(react) as replica, FrameTransport(service) as transport:
        first, second = (
            asyncio.create_task(transport.call(replica, call_of("middle", Ask(text)))) for text in "ab"
        )
        assert ((await first).value, (await second).value) == ("a" * size, "b" * size)


async def test_a_half_open_connection_is_replaced_by_the_one_of_a_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kwiken.runtime.wire.frames.transport.SILENT_S", 0.05)
    server = ReplicaServer(service, "middle")
    await server.start()
    relay = Relay(Replica("r0", "here", server.url))
    results: list[bool] = []
    async with relay.running() as replica, FrameTransport(service) as transport:
        assert (await transport.call(replica, call_of("middle", Ask("hi")))).value == "HI0"
        relay.freeze_open()
        stuck = asyncio.create_task(transport.call(replica, call_of("middle", Ask("lost"))))
        await asyncio.sleep(0.1)
        assert not stuck.done()
        transport.ask(replica, results.append)
        await until(lambda: results)
        assert results == [True]
        assert (await transport.call(replica, call_of("middle", Ask("on")))).value == "ON0"
        stuck.cancel()
    await server.stop(grace_s=0.0, linger_s=0.0)
