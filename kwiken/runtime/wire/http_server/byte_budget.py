"""Budget of the bytes that a server holds for all its clients: requests, answers of stages, unread answers.

Whoever holds bytes for a client has a `HeldBytes`, which charges them to the server's one `ByteBudget`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwiken.base.machine.memory import memory_limit

# Bytes that each holder has free of charge, so that small requests and answers always fit.
UNCOUNTED_BYTES: Final = 16 << 10
GATEWAY_SHARE: Final = 1 / 16  # of the memory limit
REPLICA_SHARE: Final = 1 / 32  # of the memory limit; a machine runs many replicas
MIN_BODIES: Final = 64 << 20  # bytes
MAX_BODIES: Final = 512 << 20  # bytes


class ByteBudget:
    """Counter of bytes held at once, with a limit.

    Args:
        most: largest number of bytes, 0 or more.

    Attributes:
        reclaim: gives back at least some number of bytes that are reserved for what has not arrived; returns
            whether as many were reserved. None where nothing is reserved.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self.reclaim: Callable[[int], bool] | None = None

    @property
    def left(self) -> int:
        """Number of bytes that may still be taken."""
        return self.most - self.taken

    def take(self, count: int) -> bool:
        """Take a number of bytes if all of them fit; returns whether they did."""
        if count > self.left and not (self.reclaim and self.reclaim(count - self.left)):
            return False
        self.taken += count
        return True

    def give(self, count: int) -> None:
        """Give back a number of bytes."""
        self.taken -= count


class HeldBytes:
    """Bytes that are held for one client, connection or call.

    Args:
        budget: budget that they are charged to.
        free: number of bytes that are not charged.

    Attributes:
        count: number of bytes held.
    """

    __slots__ = ("_budget", "_charged", "_free", "count")

    def __init__(self, budget: ByteBudget, free: int = UNCOUNTED_BYTES) -> None:
        self._budget = budget
        self._free = free
        self._charged = 0
        self.count = 0

    def hold(self, count: int) -> bool:
        """Set the number of bytes held; returns whether the budget has room for them."""
        self.count = max(0, count)
        charge = count - self._free
        if charge <= 0:
            if not self._charged:  # most requests and answers are small
                return True
            charge = 0
        if charge > self._charged and not self._budget.take(charge - self._charged):
            return False
        if charge < self._charged:
            self._budget.give(self._charged - charge)
        self._charged = charge
        return True

    def add(self, count: int) -> bool:
        """Hold more bytes, or fewer if negative; if the budget has no room, none of them is held."""
        if self.hold(self.count + count):
            return True
        self.count -= count
        return False

    def release(self) -> None:
        """Hold nothing."""
        self.hold(0)


def share_of_memory(share: float) -> int:
    """Default byte budget: a share of the memory limit, within fixed bounds."""
    return max(MIN_BODIES, min(MAX_BODIES, int(share * memory_limit())))
