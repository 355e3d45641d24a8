"""Settings of glibc's malloc with which a server process gives the memory of large bodies back.

By default the first large block that is freed raises the size from which blocks have a mapping of their own,
up to 32 MiB. From then on bodies lie in arenas, between small blocks that stay, and each of up to eight
arenas a processor keeps the most that it ever held. A gateway then grows for as long as another one sees
large bodies. Elsewhere than on glibc nothing is set.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

M_TRIM_THRESHOLD: Final = -1  # this and the next two are numbers of `malloc.h`
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
MAPPED_FROM: Final = 256 << 10  # bytes of a block that goes back to the kernel when it is freed
KEPT_ON_TOP: Final = 512 << 10  # bytes, free at the end of an arena, that stay for the next block
MAX_ARENAS: Final = (
    2  # the interpreter's lock lets one thread allocate at a time, beside those of gRPC's core
)
TUNABLES: Final = "GLIBC_TUNABLES"


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
