"""Bound on the work that MessagePack of a peer costs its decoder, which holds the event loop until its end.

An empty list is one byte, for which the decoder takes half a microsecond and 72 bytes of memory. Lists and
maps are counted before; texts may hold the bytes of their heads, so long bodies are read value by value.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final

from kwiken.base.errors import InputError
from kwiken.runtime.wire.transport.json_work import MAX_CONTAINERS
from kwiken.runtime.wire.transport.peer_reader import SHARE, in_turns, own_turn

SHARE_BYTES: Final = 12 << 10  # bytes whose values take about as long to be read as a share of a turn
_HEADS: Final = bytes((*range(0x80, 0xA0), *range(0xDC, 0xE0)))  # first bytes of maps and lists
# By first byte of a value: bytes of its length, and bytes between the length and the content.
_LENGTHS: Final = (
    dict.fromkeys(_HEADS[:32], (0, 0))
    | {0xDC: (2, 0), 0xDD: (4, 0), 0xDE: (2, 0), 0xDF: (4, 0)}
    | {first + step: (1 << step, 0) for first in (0xC4, 0xD9) for step in range(3)}  # bytes, texts
    | {0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}  # extensions
)
# Values of other kinds: one byte, numbers, extensions of a fixed size, times, and texts and bytes up to this.
MAX_SHORT: Final = 31
_SIZED: Final = {1: rb"\xcc\xd0", 2: rb"\xcd\xd1\xd4", 3: rb"\xd5", 4: rb"\xca\xce\xd2", 5: rb"\xd6"}
_SIZED_LONG: Final = {8: rb"\xcb\xcf\xd3", 9: rb"\xd7", 17: rb"\xd8"}
_SHORT: Final = re.compile(
    rb"(?s:[\x00-\x7f\xa0\xc0\xc2\xc3\xe0-\xff]+|%s|[\xc4\xd9](?:%s)|\xc7\x0c.{13})*+"
    % (
        b"|".join(
            [rb"[%s].{%d}" % (firsts, size) for size, firsts in (_SIZED | _SIZED_LONG).items()]
            + [rb"\x%02x.{%d}" % (0xA0 + size, size) for size in range(1, MAX_SHORT + 1)]
        ),
        b"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(MAX_SHORT + 1)),
    )
)


async def decodable(body: bytes, most: int = MAX_CONTAINERS) -> bytes:
    """Return a body, unless it takes too long to decode. A long one is read in turns.

    Args:
        most: number of lists and maps that it may have.

    Raises:
        InputError: it has more.
    """
    heads = len(body) - len(body.translate(None, _HEADS)) if len(body) > most else 0
    if heads > most and await in_turns(_exceeds(body, most)):
        raise InputError(f"more than {most} lists and maps", where="MessagePack")
    await own_turn(len(body))
    return body


def _exceeds(body: bytes, most: int) -> Generator[None, None, bool]:
    """Whether there are more lists and maps, up to what is no value; each step is a share of a turn."""
    at, containers = 0, 0
    while at < len(body):
        begin, end = at, min(len(body), at + SHARE_BYTES)
        for _ in range(SHARE):
            short = _SHORT.match(body, at, end)
            at = short.end() if short is not None else at
            head = body[at : at + 1]
            if at >= end or (size := _LENGTHS.get(head[0])) is None:
                break
            width, more = size
            at += 1 + width
            content = 0 if head in _HEADS else int.from_bytes(body[at - width : at])
            at += more + content
            if content > MAX_SHORT:
                continue
            containers += 1  # or a short value in a long form, which no encoder needs
            if containers > most:
                return True
        if at == begin:
            break
        yield
    return False
