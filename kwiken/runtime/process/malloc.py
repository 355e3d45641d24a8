"""Memory of a server process under glibc's malloc: what is freed goes back to the kernel.

By default the first large block that is freed raises the size from which blocks have a mapping of their own,
up to 32 MiB. From then on bodies lie in arenas, between small blocks that stay, and each of up to eight
arenas a processor keeps the most that it ever held. A gateway then grows for as long as another one sees
large bodies.

Small blocks of a burst, such as thousands of gRPC calls at once, lie between blocks that stay, and glibc
returns only what is free at the end of an arena: a gateway kept 60 MiB of 4,000 calls that had ended. So what
is free is looked at now and then, and returned where it has become much.

Elsewhere than on glibc nothing is set or returned.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path
from typing import Any, Final

M_TRIM_THRESHOLD: Final = -1  # this and the next two are numbers of `malloc.h`
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
MAPPED_FROM: Final = 256 << 10  # bytes of a block that goes back to the kernel when it is freed
KEPT_ON_TOP: Final = 512 << 10  # bytes, free at the end of an arena, that stay for the next block
MAX_ARENAS: Final = (
    2  # the interpreter's lock lets one thread allocate at a time, beside those of gRPC's core
)
TUNABLES: Final = "GLIBC_TUNABLES"
POLL_S: Final = 10.0  # between two looks at what is free
SURPLUS: Final = (
    16 << 20
)  # bytes that are free, and by which the process has grown, from which on they go back
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class MallocUsage(ctypes.Structure):
    """Result of `mallinfo2` of glibc, in bytes or numbers of blocks."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
            "keepcost",
        )
    ]  # fmt: skip


def give_memory_back() -> None:
    """Fix the sizes above; what the user's environment sets stays. Call this before there are threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or "glibc.malloc" in os.environ.get(TUNABLES, ""):
        return
    for option, value, name in (
        (M_MMAP_THRESHOLD, MAPPED_FROM, "MALLOC_MMAP_THRESHOLD_"),
        (M_TRIM_THRESHOLD, KEPT_ON_TOP, "MALLOC_TRIM_THRESHOLD_"),
        (M_ARENA_MAX, MAX_ARENAS, "MALLOC_ARENA_MAX"),
    ):
        if name not in os.environ:
            mallopt(option, value)


class FreedMemory:
    """Decides when freed memory is returned: not again before the process has grown again.

    What has been returned still counts as free in `mallinfo2`.

    Args:
        resident: resident memory of the process, bytes.
    """

    def __init__(self, resident: int) -> None:
        self._least = resident

    def is_surplus(self, resident: int, free: int) -> bool:
        """Whether to return what is free.

        Args:
            resident: resident memory of the process, bytes.
            free: bytes that are free in arenas.
        """
        self._least = min(self._least, resident)
        return free > SURPLUS and resident > self._least + SURPLUS

    def returned(self, resident: int) -> None:
        """Note the resident memory, in bytes, after a return: what is left is in use."""
        self._least = resident


def trim() -> None:
    """Return to the kernel now what is free, where the C library can."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


async def return_freed(every_s: float = POLL_S) -> None:
    """Return freed memory to the kernel whenever it has become much, until this is cancelled.

    Args:
        every_s: time between two looks, seconds.
    """
    libc: Any = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2") or not hasattr(libc, "malloc_trim"):
        return
    libc.mallinfo2.restype = MallocUsage
    memory = FreedMemory(_resident())
    while True:
        await asyncio.sleep(every_s)
        if memory.is_surplus(_resident(), libc.mallinfo2().fordblks):
            # In a thread: tens of MiB take some milliseconds.
            await asyncio.to_thread(libc.malloc_trim, 0)
            memory.returned(_resident())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
