"""HTTP transport and answers of many kinds of servers, over real sockets within one process."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kwiken.runtime.base.errors import HandlerError, LostError, RefusedError, UnfitError
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.http import HttpTransport
from tests.support.peers.misbehaving import misbehaving, saying
from tests.support.peers.protocols import call_of
from tests.support.services.http import Ask, service


def replica_at(url: str) -> Replica:
    return Replica(id="r0", node="here", address=url)


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
