"""Test service whose threads hold large blocks of memory between small ones that stay, and report what is left."""

from __future__ import annotations

import ctypes
import threading
from typing import Final

from kwiken.model.service.service import Service

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
