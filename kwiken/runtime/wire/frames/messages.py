"""Frames of version 1: MessagePack arrays, each behind its length, and the line that both ends begin with.

A connection begins with a line of each side: the client names the newest and the oldest version that it
speaks, the server answers with the newest that both speak, or with a reason and the end of the connection.
Frames follow. A call opens an id, and one answer or one end closes it. Either side sends one item or several;
an item longer than `PIECE` continues in pieces, for which its receiver grants credit. Of several items each
uses `ITEM_COST` bytes of credit more than it has; they come back when the receiver's owner has taken it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

MARK: Final = b"KWIKEN-FRAMES "  # no method of HTTP begins so
NEWEST: Final = 1
OLDEST: Final = 1  # the version before the newest, once there is one
MAX_LINE: Final = 200  # bytes of the first line
PREFIX: Final = 4  # bytes of a frame's length
PIECE: Final = 32 << 10  # longest part of an item in one frame, bytes
MIN_PIECE: Final = 1 << 10  # shortest part but the last, bytes: a frame costs the loop a microsecond
MAX_FRAME: Final = PIECE + (4 << 10)  # bytes
WINDOW: Final = 256 << 10  # bytes of a call that may be on their way in one direction
ITEM_WINDOW: Final = 32 << 10  # the same of several items, those that their receiver has not taken included
ITEM_COST: Final = 64  # bytes that an item among several counts beside its own: what Python keeps for it
MAX_CALLS: Final = 4096  # open calls of one connection
MAX_ID: Final = 1 << 62

_OFFER = re.compile(rb"KWIKEN-FRAMES ([1-9][0-9]{0,3}) ([1-9][0-9]{0,3})\r\n")
_ANSWER = re.compile(rb"KWIKEN-FRAMES (?:([1-9][0-9]{0,3})|none: ([\x20-\x7e]{1,150}))\r\n")


class FrameError(Exception):
    """The peer broke the protocol; the connection ends."""


class CallFrame(msgspec.Struct, array_like=True, tag=1, forbid_unknown_fields=True):
    """Beginning of a call.

    Attributes:
        id: number of the call, greater than those before.
        last: whether the first item is the only one.
        size: length of the item, bytes.
        data: the item, or its first piece.
        stage: stage that the caller means.
        shard: number of the shard, from 0.
        attempt: number of the attempt, from 0.
        remaining_ms: time until the deadline, milliseconds.
        priority: priority of the call; higher is more urgent.
        threads: number of threads that the handler may use, 1 or more.
        traceparent: trace context of the caller, as W3C's header; empty for none.
    """

    id: int
    last: bool
    size: int
    data: bytes
    stage: str
    shard: int
    attempt: int
    remaining_ms: float
    priority: int
    threads: int
    traceparent: str


class StreamEnd(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """End of an answer of several items, encoded in the place of one more item.

    Attributes:
        busy_ms: processor time of the whole call, milliseconds.
        kind: name of the error that ended it; empty for none.
        message: message of that error.
    """

    busy_ms: float
    kind: str = ""
    message: str = ""


class AnswerFrame(msgspec.Struct, array_like=True, tag=2, forbid_unknown_fields=True):
    """Beginning of an answer.

    Attributes:
        id: number of the call.
        last: whether the first item is the only one.
        size: length of the item, bytes.
        data: the item, or its first piece.
        status: kind of the end, as the number that HTTP has for it.
        refused: reason of a refusal in the words of `wire.REFUSED`; empty for none.
        busy_ms: processor time of the call, milliseconds.
        inflight: number of calls at the replica, this one included.
        latency_ms: moving average of the latency of the replica's calls, milliseconds.
    """

    id: int
    last: bool
    size: int
    data: bytes
    status: int
    refused: str
    busy_ms: float
    inflight: int
    latency_ms: float


class ItemFrame(msgspec.Struct, array_like=True, tag=3, forbid_unknown_fields=True):
    """Beginning of a further item of a call or an answer; see `CallFrame`."""

    id: int
    last: bool
    size: int
    data: bytes


class PieceFrame(msgspec.Struct, array_like=True, tag=4, forbid_unknown_fields=True):
    """Further piece of the item that a call or an answer is at."""

    id: int
    data: bytes


class CreditFrame(msgspec.Struct, array_like=True, tag=5, forbid_unknown_fields=True):
    """Grant to send so many bytes more of a call or an answer."""

    id: int
    count: int


class CancelFrame(msgspec.Struct, array_like=True, tag=6, forbid_unknown_fields=True):
    """End of a call by its client; answered with an `EndedFrame`, unless an answer is on its way."""

    id: int


class EndedFrame(msgspec.Struct, array_like=True, tag=7, forbid_unknown_fields=True):
    """End of a cancelled call at the replica, with the processor time that it had taken, milliseconds."""

    id: int
    busy_ms: float


class ByeFrame(msgspec.Struct, array_like=True, tag=8, forbid_unknown_fields=True):
    """The sender ends soon: no new calls, and those that are open go on."""


Frame = CallFrame | AnswerFrame | ItemFrame | PieceFrame | CreditFrame | CancelFrame | EndedFrame | ByeFrame
ToServer = CallFrame | ItemFrame | PieceFrame | CreditFrame | CancelFrame
ToClient = AnswerFrame | ItemFrame | PieceFrame | CreditFrame | EndedFrame | ByeFrame


def offer(newest: int = NEWEST, oldest: int = OLDEST) -> bytes:
    """First line of a client."""
    return b"%s%d %d\r\n" % (MARK, newest, oldest)


def read_offer(line: bytes) -> int | None:
    """Newest version of a client's offer that this release speaks; None for none.

    Raises:
        FrameError: the line is no offer.
    """
    match = _OFFER.fullmatch(line)
    if match is None:
        raise FrameError(f"not a first line of frames: {line[:80]!r}")
    newest = min(int(match[1]), NEWEST)
    return newest if newest >= max(int(match[2]), OLDEST) else None


def response(version: int | None) -> bytes:
    """First line of a server, with the version that the connection speaks; None for none."""
    if version is not None:
        return b"%s%d\r\n" % (MARK, version)
    return b"%snone: this replica speaks versions %d to %d of kwiken's frames\r\n" % (MARK, OLDEST, NEWEST)


def read_response(line: bytes) -> int:
    """Version in a server's first line.

    Raises:
        FrameError: the server speaks no version of this release, or the line is no server's.
    """
    match = _ANSWER.fullmatch(line)
    if match is None:
        raise FrameError(f"not a replica that speaks kwiken's frames: it began with {line[:40]!r}")
    if match[1] is None or not OLDEST <= int(match[1]) <= NEWEST:
        said = f"version {match[1].decode()}" if match[2] is None else match[2].decode()
        raise FrameError(
            f"no common version of frames: it said {said!r}, and this gateway speaks {OLDEST} to {NEWEST}"
        )
    return int(match[1])
