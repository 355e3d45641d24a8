"""Budget of the bytes that all requests of a server hold, as a share of the memory limit."""

from __future__ import annotations

from typing import Final

from kwiken.base.machine.memory import memory_limit

# Bytes of each request that are not counted, so that small requests always fit.
UNCOUNTED_BYTES: Final = 16 << 10
GATEWAY_SHARE: Final = 1 / 16  # of the memory limit
REPLICA_SHARE: Final = 1 / 32  # of the memory limit; a machine runs many replicas
MIN_BODIES: Final = 64 << 20  # bytes
MAX_BODIES: Final = 512 << 20  # bytes


class ByteBudget:
    """Counter of bytes held at once, with a limit.

    Args:
        most: largest number of bytes, 0 or more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    @property
    def left(self) -> int:
        """Number of bytes that may still be taken."""
        return self.most - self.taken

    def take(self, count: int) -> bool:
        """Take a number of bytes if all of them fit; returns whether they did."""
        if count > self.left:
            return False
        self.taken += count
        return True

    def give(self, count: int) -> None:
        """Give back a number of bytes."""
        self.taken -= count


def share_of_memory(share: float) -> int:
    """Default byte budget: a share of the memory limit, within fixed bounds."""
    return max(MIN_BODIES, min(MAX_BODIES, int(share * memory_limit())))
