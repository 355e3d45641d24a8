"""Answers of foreign HTTP servers: the same however their bytes are divided over reads."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.wire.foreign.http_bodies import MAX_CHUNK_LINE, BrokenReplyError
from kwiken.runtime.wire.foreign.http_connection import HttpConnection, UnreadReplyError
from kwiken.runtime.wire.transport.http_head import MAX_HEAD
from tests.runtime.wire.foreign.test_http_connection import Wire

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LONGEST_LINE = b"1;" + b"x" * (MAX_CHUNK_LINE - 2)
ANSWERS = {
    "sized": OK + b"Content-Length: 5\r\n\r\nhello",
    "sized, more behind": OK + b"Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n",
    "empty, more behind": b"HTTP/1.1 204 No Content\r\n\r\nx",
    "chunks": CHUNKED + b"3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n",
    "chunks, more behind": CHUNKED + b"5\r\nhello\r\n0\r\n\r\n0\r\n\r\n",
    "chunk with the longest line": CHUNKED + LONGEST_LINE + b"\r\nh\r\n0\r\n\r\n",
    "chunk with too long a line": CHUNKED + LONGEST_LINE + b"x\r\nh\r\n0\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\n1",
    "longest head": OK + b"X: " + b"x" * (MAX_HEAD - len(OK) - 3 - 19) + b"\r\nContent-Length: 0\r\n\r\n",
    "head too long": OK + b"X: " + b"x" * (MAX_HEAD - len(OK) - 3 - 18) + b"\r\nContent-Length: 0\r\n\r\n",
    "bare CR": b"HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n",
    "until the end": OK + b"\r\nhello",
}


async def answered(pieces: list[bytes]) -> tuple[object, bool]:
    """What a caller gets of an answer in pieces, after which the server closes; and whether it was surplus."""
    connection = HttpConnection(asyncio.get_running_loop(), 1 << 20)
    wire = Wire()
    connection.connection_made(wire)
    exchange = asyncio.create_task(connection.exchange(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for piece in pieces:
        if not wire.closed:
            connection.data_received(piece)
    cut = wire.closed
    connection.connection_lost(None)
    try:
        return await exchange, cut
    except (BrokenReplyError, UnreadReplyError) as error:
        return type(error), cut


@pytest.mark.parametrize("name", ANSWERS)
@given(data=st.data())
def test_an_answer_is_the_same_however_it_is_divided(name: str, data: st.DataObject) -> None:
    text = ANSWERS[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert asyncio.run(answered(pieces)) == asyncio.run(answered([text]))


@pytest.mark.parametrize(
    "name", [name for name in ANSWERS if "longest" not in name and "too long" not in name]
)
def test_an_answer_is_the_same_byte_by_byte(name: str) -> None:
    text = ANSWERS[name]
    assert asyncio.run(answered([bytes([each]) for each in text])) == asyncio.run(answered([text]))


@pytest.mark.parametrize(
    "name", ["longest head", "head too long", "chunk with the longest line", "chunk with too long a line"]
)
def test_the_last_bytes_before_a_bound_may_come_apart(name: str) -> None:
    text = ANSWERS[name]
    whole = asyncio.run(answered([text]))
    start = 0 if "head" in name else len(CHUNKED)
    bound = start + (MAX_HEAD if "head" in name else MAX_CHUNK_LINE)
    for cut in range(bound - 3, min(bound + 6, len(text))):
        assert asyncio.run(answered([text[:cut], text[cut:]])) == whole, cut
