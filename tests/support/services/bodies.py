"""Test services of large blocks of memory: threads that hold them, and answers as long as a request asks for."""

from __future__ import annotations

import ctypes
import threading
from typing import Final

import msgspec

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial

BODY: Final = 3 << 20  # bytes
THREADS: Final = 6  # fewer than the arenas that glibc makes on one processor
FIELDS: Final = ("arena", *(f"other_{number}" for number in range(9)))  # of `struct mallinfo2`

service = Service("bodies")
small: list[bytes] = []


class Mallinfo(ctypes.Structure):
    """What `mallinfo2` returns; its first field is the size of all arenas in bytes."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in FIELDS)


@service.stage()
async def only(request: str) -> int:
    """Bytes by which the arenas have grown after all large blocks were freed."""
    del request
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    together = threading.Barrier(THREADS)

    def hold() -> None:
        for _ in range(3):
            together.wait(10)
            large = bytearray(BODY)
            small.append(bytes(1000))
            together.wait(10)
            del large

    before = mallinfo().arena
    threads = [threading.Thread(target=hold) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return int(mallinfo().arena - before)


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """Request.

    Attributes:
        inner: bytes of the answer of each of four shards, which the client does not get.
        answer: bytes of the answer that the client gets.
    """

    inner: int = 0
    answer: int = 0


sized = Service("sized")


@sized.stage(idempotent=True)
async def first(ask: Ask) -> Ask:
    """Pass the request on."""
    return ask


@sized.stage(after=[first], fanout=4, replicas=2, idempotent=True)
async def inner(ask: Ask, *, shard: int) -> str:
    """Bytes that stay inside."""
    del shard
    return "x" * ask.inner


@sized.stage(after=[first, inner], idempotent=True)
async def last(ask: Ask, parts: Partial[str]) -> str:
    """Bytes for the client."""
    return f"{len(parts.present)}" + "x" * ask.answer
