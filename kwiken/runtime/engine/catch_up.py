"""What a call gets that starts when its request is late already (Kwiken section 5.5): threads and priority.

Priority costs nothing. Threads cost what they burn beyond a call's usual work (section 5.5: three threads are
about twice as fast, so they burn half as much again), which is known only afterwards: twice the usual extra
is held back when the call is sent, and settled by what the replica measured.
"""

from __future__ import annotations

from kwiken.runtime.decisions import Hold, Node
from kwiken.runtime.engine.context import Request, Shared

HELD = 2.0  # usual extras that are held back
GAIN = 0.1


def usual_extra(threads: int) -> float:
    """Work beyond a call's own that so many threads burn, by the law through 3 threads and twice the speed.

    A speed-up of 1 + (t - 1) / 2 burns t / (1 + (t - 1) / 2) of the work.
    """
    return (threads - 1) / (threads + 1)


class LateCall:
    """One call that started late.

    Args:
        shared: with the ledger that pays.
        request: that is late.
        node: whose call it is.
        now: the moment.

    Attributes:
        threads: that its first attempt gets.
        levels: of priority that its attempts gain.
    """

    __slots__ = ("_hold", "_node", "_request", "_shared", "levels", "threads")

    def __init__(self, shared: Shared, request: Request, node: Node, now: float) -> None:
        self._shared = shared
        self._request = request
        self._node = node
        self._hold: Hold | None = None
        self.levels = node.late_levels
        self.threads = 1
        self.take(now)
        if self.levels or self.threads > 1:
            node.lane.late_calls += 1

    def take(self, now: float) -> None:
        """Take threads for an attempt that is about to be sent, if there is room and they can be paid."""
        node = self._node
        most = node.late_threads
        if most == 1 or not self._shared.admission.calm(now):
            return
        extra = min(most - 1.0, HELD * (node.lane.late_extra or usual_extra(most)))
        self._hold = self._shared.ledger.hold(self._request.purse, round(node.cost * extra), now)
        if self._hold is not None:
            self.threads = most
            node.lane.late_threads += 1

    def refused(self) -> None:
        """The attempt did not run: give back what was held."""
        if self._hold is not None:
            self._shared.ledger.settle(self._request.purse, self._hold, 0, self._shared.now())
            self._hold = None
            self._node.lane.late_threads -= 1
        self.threads = 1

    def answered(self, busy_ms: float | None, now: float) -> None:
        """The attempt answered: charge what its threads did burn. Without an answer all that was held is."""
        if self._hold is None:
            return
        lane, most = self._node.lane, self.threads
        usual = lane.late_extra or usual_extra(most)
        extra = usual
        if busy_ms is not None and lane.busy_ms:
            extra = min(max(0.0, busy_ms / lane.busy_ms - 1.0), most - 1.0)
            lane.late_extra = usual + GAIN * (extra - usual)
        self._shared.ledger.settle(self._request.purse, self._hold, round(self._node.cost * extra), now)
        self._hold = None
