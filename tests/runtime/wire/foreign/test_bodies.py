"""Bodies of foreign answers: chunks cut anywhere, and bytes that are no body."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.wire.foreign.http_bodies import (
    MAX_CHUNK_LINE,
    MAX_TRAILERS,
    BrokenReplyError,
    ChunkedBody,
)

ALL = 1 << 30  # lines
PARTS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


def chunked(parts: list[bytes], trailers: list[bytes]) -> bytes:
    chunks = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts)
    return chunks + b"0\r\n" + b"".join(line + b"\r\n" for line in trailers) + b"\r\n"


@given(PARTS, st.lists(st.sampled_from([b"a: b", b"x:"]), max_size=3), st.lists(st.integers(0, 400)))
def test_a_body_is_the_same_wherever_it_is_cut(
    parts: list[bytes], trailers: list[bytes], cuts: list[int]
) -> None:
    text = chunked(parts, trailers)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    body = ChunkedBody()
    for start, end in itertools.pairwise(places):
        assert not body.complete
        body.feed(text[start:end], ALL)
    assert body.complete
    assert bytes(body.data) == b"".join(parts)


@given(st.binary(max_size=200))
def test_noise_is_refused_or_waits_for_more(noise: bytes) -> None:
    body = ChunkedBody()
    with contextlib.suppress(BrokenReplyError):
        body.feed(noise, ALL)
    assert len(body.data) <= len(noise)


@pytest.mark.parametrize(
    "text",
    [
        b"5" * (MAX_CHUNK_LINE + 2),
        b"1;" + b"x" * MAX_CHUNK_LINE + b"\r\n",
        b"123456789\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b"\r\n",
        b"0\r\n" + b"a: b\r\n" * (MAX_TRAILERS + 2),
    ],
)
def test_lines_and_trailers_are_bounded(text: bytes) -> None:
    with pytest.raises(BrokenReplyError):
        ChunkedBody().feed(text, ALL)
