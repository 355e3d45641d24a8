"""Foreign HTTP services that stream: events, lines and text, cut anywhere, and peers that send something else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError, KwikenError
from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.base.errors import HandlerError, LostError, OverloadError, UnfitError
from kwiken.runtime.wire.foreign.http_items import MAX_ITEM, splitter_of
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget, HeldBytes
from kwiken.runtime.wire.transport.base import Call, ItemStream, Replica
from kwiken.runtime.wire.transport.local import LocalTransport
from tests.support.peers.foreign_grpc import Stock, grpc_server
from tests.support.peers.foreign_http import call_of, executing
from tests.support.peers.misbehaving import Reaction, misbehaving, saying
from tests.support.runtime.garbage import garbage_of
from tests.support.runtime.waiting import PATIENCE_S

URL: Final = "http://model.example:8000/v1"
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
CHUNKED: Final = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DONE: Final = b"data: [DONE]\n\n"
WORDS: Final = st.lists(st.text(max_size=20), max_size=8)


class Word(msgspec.Struct):
    text: str


def service_of(remote: HttpCall, item: Any = Word, **settings: Any) -> Service:
    """A service of one foreign stage that streams."""

    async def tell(ask: str) -> AsyncIterator[Any]:
        raise NotImplementedError

    tell.__annotations__["return"] = AsyncIterator[item]
    return Service.of("story", [Stage(name="tell", handler=tell, remote=remote, **settings)])


def event(text: str) -> bytes:
    return b"data: " + json.dumps({"text": text}).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def sized(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def transport_of(service: Service) -> ForeignTransport:
    return ForeignTransport(service, LocalTransport(service))


@contextlib.asynccontextmanager
async def calling(react: Reaction, service: Service) -> AsyncIterator[tuple[ForeignTransport, Replica]]:
    async with misbehaving(react) as replica, transport_of(service) as transport:
        yield transport, replica


async def items_of(
    react: Reaction, remote: HttpCall, call: Call | None = None, item: Any = Word
) -> list[Any]:
    """All items of one call; those before an error are in the error's notes."""
    items: list[Any] = []
    async with calling(react, service_of(remote, item)) as (transport, replica):
        reply = await transport.call(replica, call if call is not None else call_of("tell", "tea"))
        stream = reply.value
        assert isinstance(stream, ItemStream)
        async with asyncio.timeout(PATIENCE_S):
            try:
                while more := await stream.pull():
                    items += more
            except KwikenError as error:
                error.add_note(f"{len(items)} items before")
                raise
            finally:
                await stream.close()
    return items


EVENTS: Final = HttpCall(URL, stream="events")


@given(WORDS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 300), max_size=10))
def test_events_are_the_same_wherever_they_are_cut(words: list[str], end: str, cuts: list[int]) -> None:
    lines = ["\ufeff: a comment"]
    for number, word in enumerate(words):
        lines += [f"id: {number}", f"event: word{number}", "data: first", f"data:{json.dumps(word)}", ""]
    text = "".join(line + end for line in lines).encode()
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    splitter = splitter_of("events")
    found = [entry for start, stop in itertools.pairwise(places) for entry in splitter.feed(text[start:stop])]
    found += splitter.end()
    assert [entry.name.decode() for entry in found] == [f"word{number}" for number in range(len(words))]
    assert [json.loads(entry.data.removeprefix(b"first\n")) for entry in found] == words


@given(WORDS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 300), max_size=10))
def test_lines_are_the_same_wherever_they_are_cut(words: list[str], end: str, cuts: list[int]) -> None:
    text = end.join(f" {json.dumps(word)} " for word in words).encode()
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    splitter = splitter_of("lines")
    found = [entry for start, stop in itertools.pairwise(places) for entry in splitter.feed(text[start:stop])]
    assert [json.loads(entry.data) for entry in (*found, *splitter.end())] == words


@given(st.text(max_size=60), st.lists(st.integers(0, 200), max_size=10))
def test_text_is_cut_between_characters_only(text: str, cuts: list[int]) -> None:
    data = text.encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    splitter = splitter_of("chunks")
    found = [entry for start, stop in itertools.pairwise(places) for entry in splitter.feed(data[start:stop])]
    assert "".join(entry.data.decode() for entry in found) == text
    assert not list(splitter.end())


@given(st.binary(max_size=300), st.sampled_from(["events", "lines", "chunks"]))
def test_any_bytes_split_or_fail_in_the_documented_way(noise: bytes, stream: str) -> None:
    splitter = splitter_of(stream)
    with contextlib.suppress(UnicodeDecodeError):
        entries = [*splitter.feed(noise), *splitter.end()]
        assert sum(len(entry.data) for entry in entries) <= len(noise)


COMPLETION: Final = (
    b'data: {"id": "c1", "choices": [{"index": 0, "delta": {"content": "tea"}}], "usage": null}\n\n'
)
SHAPES: Final[list[tuple[HttpCall, bytes, Any, list[Any]]]] = [
    (EVENTS, event("a") + event("b") + DONE, Word, [Word("a"), Word("b")]),
    (EVENTS, event("a") + DONE.strip(), Word, [Word("a")]),
    (EVENTS, DONE, Word, []),
    (EVENTS, b": comment\n\n: again\n\nevent: ping\n\n" + event("a") + DONE, Word, [Word("a")]),
    (EVENTS, COMPLETION + DONE, dict, [json.loads(COMPLETION[6:])]),
    (
        HttpCall(URL, stream="events", end_mark="message_stop"),
        b'event: delta\ndata: {"text": "a"}\n\nevent: message_stop\ndata: {"type": "message_stop"}\n\n',
        Word,
        [Word("a")],
    ),
    (HttpCall(URL, stream="events", end_mark=None), event("a"), Word, [Word("a")]),
    (HttpCall(URL, stream="lines"), b'{"text":"a"}\n\n{"text":"b"}', Word, [Word("a"), Word("b")]),
    (HttpCall(URL, stream="lines", end_mark="end"), b'{"text":"a"}\nend\n{"text":"b"}\n', Word, [Word("a")]),
    (EVENTS, b'data: {"text": "a", "error": null}\n\n' + DONE, Word, [Word("a")]),
    (EVENTS, b'data: {"text": "the \\"error\\"", "n": {"error": 1}}\n\n' + DONE, Word, [Word('the "error"')]),
]


@pytest.mark.parametrize(("remote", "body", "item", "expected"), SHAPES)
@pytest.mark.parametrize("form", ["sized", "chunked", "small chunks", "until the end"])
async def test_shapes_of_servers_are_read(
    remote: HttpCall, body: bytes, item: Any, expected: list[Any], form: str
) -> None:
    texts = {
        "sized": sized(body),
        "chunked": CHUNKED + chunk(body) + b"0\r\n\r\n",
        "small chunks": CHUNKED
        + b"".join(chunk(body[at : at + 1]) for at in range(len(body)))
        + b"0\r\n\r\n",
        "until the end": HEAD + b"\r\n" + body,
    }
    assert await items_of(saying(texts[form]), remote, item=item) == expected


async def test_text_comes_in_pieces() -> None:
    text = "tea, café, 茶"
    answer = HEAD + b"\r\n" + text.encode()
    assert "".join(await items_of(saying(answer), HttpCall(URL, stream="chunks"), item=str)) == text


BROKEN: Final[list[tuple[str, bytes, type[Exception], str]]] = [
    (
        "no end mark",
        sized(event("a")),
        LostError,
        "without its end mark '[DONE]' (`end_mark` in `remote` states another, or None), after 1 items",
    ),
    (
        "cut off",
        CHUNKED + chunk(event("a")) + b"5\r\nda",
        LostError,
        "the connection was closed, after 1 items",
    ),
    ("no JSON", sized(event("a") + b"data: {text\n\n" + DONE), UnfitError, "item 2: it does not fit: JSON"),
    (
        "other type",
        sized(event("a") + b'event: x\ndata: {"t": 1}\n\n'),
        UnfitError,
        "item 2: event x does not",
    ),
    (
        "half an event",
        CHUNKED + chunk(event("a") + b"data: {") + b"0\r\n\r\n",
        UnfitError,
        "item 2: it does not",
    ),
    (
        "an error as an event",
        sized(event("a") + b'event: error\ndata: {"type": "overloaded"}\n\n'),
        HandlerError,
        'StreamError: {"type": "overloaded"}',
    ),
    (
        "an error in an object",
        sized(event("a") + b'data: {"id": 1, "error": {"message": "out of memory"}}\n\n' + DONE),
        HandlerError,
        'StreamError: {"message":"out of memory"}',
    ),
    (
        "huge",
        CHUNKED + chunk(event("a") + b"data: " + b"x" * (MAX_ITEM + 1)),
        HandlerError,
        f"item 2 has more than {MAX_ITEM} bytes",
    ),
    ("no chunks", CHUNKED + chunk(event("a")) + b"xyz\r\n", LostError, "not the length of a chunk"),
]


@pytest.mark.parametrize(
    ("answer", "kind", "message"), [each[1:] for each in BROKEN], ids=[e[0] for e in BROKEN]
)
async def test_what_breaks_off_is_an_error_behind_the_items_before(
    answer: bytes, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        await items_of(saying(answer), EVENTS)
    assert str(caught.value).startswith("stage 'tell': ")
    assert message in str(caught.value)
    assert caught.value.__notes__ == ["1 items before"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            "answered application/json, not text/event-stream; does its body ask for a stream, as by `stream: true`?",
        ),
        (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "its answer is compressed (gzip)"),
    ],
)
async def test_an_answer_of_another_form_says_what_would_be_right(answer: bytes, message: str) -> None:
    with pytest.raises(UnfitError) as caught:
        await items_of(saying(answer), EVENTS)
    assert message in str(caught.value)


async def test_text_that_is_not_utf_8_is_unfit() -> None:
    answer = HEAD + b"\r\n" + b"ab\xff"
    with pytest.raises(UnfitError, match="item 1 is not UTF-8"):
        await items_of(saying(answer), HttpCall(URL, stream="chunks"), item=str)


@pytest.mark.parametrize("status", [b"400 Bad Request", b"500 Oops"])
async def test_an_error_before_the_stream_has_its_status_and_text(status: bytes) -> None:
    answer = b"HTTP/1.1 " + status + b"\r\nContent-Length: 9\r\n\r\nno prompt"
    with pytest.raises(HandlerError, match=f"HTTP {status[:3].decode()}: no prompt"):
        await items_of(saying(answer), EVENTS)


async def test_a_connection_is_used_again_after_the_end_mark() -> None:
    connections, requests = list[int](), list[int]()

    async def react(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while True:
            requests.append(1)
            await reader.readexactly(5)  # the body of the request
            writer.write(CHUNKED + chunk(event("a") + DONE) + b"0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")

    async with calling(react, service_of(EVENTS)) as (transport, replica):
        for _ in range(3):
            reply = await transport.call(replica, call_of("tell", "tea"))
            assert await reply.value.rest() == [Word("a")]
    assert (len(connections), len(requests)) == (1, 3)


async def test_a_peer_that_goes_on_after_the_end_mark_is_cut_off() -> None:
    gone = asyncio.Event()

    async def react(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(CHUNKED + chunk(event("a") + DONE))
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(chunk(b"x" * 1000))
                await writer.drain()
                await asyncio.sleep(0)
        gone.set()

    async with calling(react, service_of(EVENTS)) as (transport, replica):
        reply = await transport.call(replica, call_of("tell", "tea"))
        assert await reply.value.rest() == [Word("a")]
        async with asyncio.timeout(PATIENCE_S):
            await gone.wait()


def never_ending(sent: list[int], gone: asyncio.Event) -> Reaction:
    """Server that sends events as fast as they are taken, for ever."""

    async def react(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(CHUNKED)
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(chunk(event("x" * 2000)))
                await writer.drain()
                sent.append(1)
        gone.set()

    return react


async def test_a_reader_that_waits_holds_the_server_up_and_a_cancel_ends_it() -> None:
    sent, gone = list[int](), asyncio.Event()
    budget = ByteBudget(1 << 20)
    async with calling(never_ending(sent, gone), service_of(EVENTS)) as (transport, replica):
        call = call_of("tell", "tea")
        call.held = held = HeldBytes(budget, free=0)
        reply = await transport.call(replica, call)
        call.end()
        stalled = -1
        while stalled != len(sent):  # the buffers of both sides are full
            stalled = len(sent)
            await asyncio.sleep(0.2)
        assert 0 < held.count < 1 << 20
        while (
            len(sent) <= stalled
        ):  # what was sent is finite, so the server goes on at the latest behind that
            assert await reply.value.pull()
        reply.value.cancel()
        assert held.count == 0
        async with asyncio.timeout(PATIENCE_S):
            await gone.wait()


async def test_a_server_that_never_ends_an_event_is_bounded_by_the_budget_of_held_bytes() -> None:
    async def react(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(CHUNKED + chunk(event("a")))
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(chunk(b"data: " + b"x" * 5000 + b"\n"))
                await writer.drain()

    budget = ByteBudget(1 << 19)
    call = call_of("tell", "tea")
    call.held = HeldBytes(budget, free=0)
    with pytest.raises(OverloadError, match="too many bytes of answers are held"):
        await items_of(react, EVENTS, call)
    call.end()
    assert budget.taken == 0


async def test_lost_and_cancelled_streams_leave_no_cycles() -> None:
    async def lost() -> None:
        with contextlib.suppress(LostError):
            await items_of(saying(CHUNKED + chunk(event("a"))), EVENTS)

    await lost()
    assert await garbage_of(lost) == {}


async def test_the_first_item_decides_the_race_and_the_loser_is_cut_off() -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b": working\n\n"))
        while await reader.read(1000):
            pass
        gone.set()

    service = service_of(EVENTS, idempotent=True, timeout_ms=10_000, reissue=Reissue(after_ms=5))
    quick = saying(CHUNKED + chunk(event("a")) + chunk(event("b")) + chunk(DONE) + b"0\r\n\r\n")
    async with misbehaving(silent) as slow, misbehaving(quick) as fast:
        pair = [slow, Replica("r1", "there", fast.address)]
        async with executing(service, {"tell": pair}) as executor:
            async with asyncio.timeout(PATIENCE_S):
                while not gone.is_set():
                    assert (await executor.run("tea")).value == [Word("a"), Word("b")]
            counts = executor.status()["stages"]["tell"]
            assert counts["failed"] == 0
            assert counts["reissues"] >= 1


def after_words(ask: str, items: list[Word]) -> str:
    return " ".join(ask.split()[len(items) :])


async def test_a_stream_that_is_cut_off_goes_on_at_another_server() -> None:
    """The first server gives one word and hangs up; a request that it does not get is whole at once."""

    async def some(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None) -> None:
        words = json.loads(await reader.read(1000)).split()
        body = b"".join(chunk(event(word)) for word in words[:most])
        writer.write(CHUNKED + body + (chunk(DONE) + b"0\r\n\r\n" if most is None else b""))
        await writer.drain()

    service = service_of(EVENTS, idempotent=True, resume=after_words)
    async with misbehaving(partial(some, most=1)) as cut, misbehaving(partial(some, most=None)) as whole:
        pair = [cut, Replica("r1", "there", whole.address)]
        async with executing(service, {"tell": pair}) as executor:
            for _ in range(10):
                response = await executor.run("one two three")
                assert [word.text for word in response.value] == ["one", "two", "three"]
            counts = executor.status()["stages"]["tell"]
    assert counts["failed"] == 0
    assert counts["retries"] >= 1


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send one item, and then a byte of the next one every now and then."""
    del reader
    writer.write(CHUNKED + chunk(event("a")))
    with contextlib.suppress(ConnectionError):
        for letter in itertools.chain(b"data: ", itertools.repeat(ord("x"))):
            writer.write(chunk(bytes([letter])))
            await writer.drain()
            await asyncio.sleep(0.01)


async def test_a_peer_that_drips_is_out_of_time_between_items() -> None:
    async with misbehaving(drip) as replica:
        async with executing(service_of(EVENTS, timeout_ms=1000), {"tell": [replica]}) as executor:
            with pytest.raises(KwikenError, match="no further item within 1000 ms, after 1 items"):
                await executor.run("tea")
        so_far = service_of(EVENTS, timeout_ms=1000, items_so_far=True)
        async with executing(so_far, {"tell": [replica]}) as executor:
            response = await executor.run("tea")
    assert response.value == [Word("a")]
    assert response.partial


# Definitions.


def test_a_definition_says_what_would_be_right() -> None:
    async def once(ask: str) -> Word:
        raise NotImplementedError

    async def tell(ask: str) -> AsyncIterator[Word]:
        yield Word("")

    def message(remote: HttpCall | GrpcCall, handler: Any = None) -> str:
        with pytest.raises(DefinitionError) as caught:
            Service.of("s", [Stage(name="tell", handler=handler, remote=remote)]).check()
        return str(caught.value)

    assert message(HttpCall(URL, stream="sse")) == (
        "stage 'tell': stream must be one of events, lines, chunks, not 'sse'"
    )
    assert message(HttpCall(URL, end_mark="x")) == (
        "stage 'tell': end_mark has no effect: it ends a stream of events or lines"
    )
    assert message(HttpCall(URL, stream="events", end_mark=" x")) == (
        "stage 'tell': end_mark must be printable text without spaces around it, not ' x'"
    )
    assert "its remote streams: annotate its answer as AsyncIterator[T], not Word" in message(EVENTS, once)
    assert "yields items, and its remote answers once: say `stream` in `remote`" in message(
        HttpCall(URL), tell
    )
    assert "its remote streams chunks, which are text: annotate its answer as AsyncIterator[str]" in message(
        HttpCall(URL, stream="chunks"), tell
    )


# Over gRPC.


def stock_service(item: Any, **settings: Any) -> Service:
    async def count(ask: dict[str, Any]) -> AsyncIterator[Any]:
        raise NotImplementedError

    count.__annotations__["return"] = AsyncIterator[item]
    remote = GrpcCall("grpc://shop.example:1/shop.Inventory/List", stream=True)
    return Service.of("shop", [Stage(name="count", handler=count, remote=remote, **settings)])


class Pieces(msgspec.Struct):
    sku: str
    pieces: int


async def test_messages_of_a_grpc_service_are_items_as_they_come() -> None:
    go_on, cancelled = asyncio.Event(), asyncio.Event()

    async def listing(ask: Any, context: Any) -> AsyncIterator[Any]:
        del context
        try:
            for number in itertools.count():
                if number == 3:
                    await go_on.wait()
                yield Stock(sku=ask.sku, pieces=number)
        finally:
            cancelled.set()

    service = stock_service(Pieces)
    async with grpc_server(listing=listing) as replica, transport_of(service) as transport:
        reply = await transport.call(replica, call_of("count", {"sku": "tea"}, within_s=PATIENCE_S))
        first = [(await reply.value.pull())[0] for _ in range(3)]
        assert not go_on.is_set()
        go_on.set()
        fourth = await reply.value.pull()
        reply.value.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await cancelled.wait()
    assert [*first, *fourth] == [Pieces("tea", number) for number in range(4)]


async def test_a_grpc_stream_that_breaks_off_is_an_error_behind_its_items() -> None:
    async def listing(ask: Any, context: Any) -> AsyncIterator[Any]:
        yield Stock(sku=ask.sku, pieces=1)
        await context.abort(14, "shutting down")

    service = stock_service(Pieces)
    async with grpc_server(listing=listing) as replica, transport_of(service) as transport:
        reply = await transport.call(replica, call_of("count", {"sku": "tea"}))
        assert await reply.value.pull() == [Pieces("tea", 1)]
        with pytest.raises((LostError, HandlerError), match="shutting down"):
            await reply.value.pull()


async def test_a_grpc_method_that_answers_once_does_not_stream() -> None:
    async def get(ask: Any, context: Any) -> Any:
        del context
        return Stock(sku=ask.sku)

    remote = GrpcCall("grpc://shop.example:1/shop.Inventory/Get", stream=True)
    service = Service.of("shop", [Stage(name="count", remote=remote)])
    async with grpc_server(get=get) as replica, transport_of(service) as transport:
        with pytest.raises(DefinitionError, match="answers with one message; leave out `stream`"):
            await transport.check({"count": [replica]})
