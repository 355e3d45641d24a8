"""Extra threads and priority for a call that starts when its request is already late (Kwiken section 5.5).

Priority costs nothing. Threads cost the work that they burn beyond a call's usual work (section 5.5: three
threads are about twice as fast, so they burn half as much again), which is known only afterwards. Twice the
usual extra work is therefore reserved when the call is sent, and settled by the replica's measurement.
"""

from __future__ import annotations

from kwiken.runtime.decisions.compiled_stage import CompiledStage
from kwiken.runtime.decisions.ledger.budget_ledger import Hold
from kwiken.runtime.engine.hedged_call.context import Request, Shared

RESERVED_EXTRAS = 2.0  # reservation as a multiple of the usual extra work
GAIN = 0.1  # weight of one call in the moving average of extra work


def usual_extra(threads: int) -> float:
    """Usual extra work of a number of threads, as a share of the call's own work.

    The formula goes through twice the speed with 3 threads: a speed-up of 1 + (t - 1) / 2 burns
    t / (1 + (t - 1) / 2) of the work.
    """
    return (threads - 1) / (threads + 1)


class LateCall:
    """Catch-up measures of one call that started late.

    Args:
        shared: objects that all calls share, with the ledger that pays.
        now: present moment, seconds.

    Attributes:
        threads: threads for the first attempt, 1 or more.
        levels: priority levels that the attempts gain, 0 or more.
    """

    __slots__ = ("_hold", "_request", "_shared", "_stage", "levels", "threads")

    def __init__(self, shared: Shared, request: Request, stage: CompiledStage, now: float) -> None:
        self._shared = shared
        self._request = request
        self._stage = stage
        self._hold: Hold | None = None
        self.levels = stage.catch_up.levels
        self.threads = 1
        self.take(now)
        if self.levels or self.threads > 1:
            stage.state.counts.late_calls += 1

    def take(self, now: float) -> None:
        """Reserve threads for the next attempt, if the load allows it and the budget pays for them."""
        stage = self._stage
        most = stage.catch_up.threads
        if most == 1:
            return
        spare = self._shared.admission.spare_capacity(now)
        extra = min(most - 1.0, RESERVED_EXTRAS * (stage.state.work.late_extra or usual_extra(most)))
        cost = round(stage.cost * extra)
        self._hold = self._shared.ledger.hold(self._request.budget, cost, now, spare=spare)
        if self._hold is not None:
            self.threads = most
            stage.state.counts.late_threads += 1

    def refused(self) -> None:
        """Refund the reservation of an attempt that did not run."""
        if self._hold is not None:
            self._shared.ledger.settle(self._request.budget, self._hold, 0, self._shared.now())
            self._hold = None
            self._stage.state.counts.late_threads -= 1
        self.threads = 1

    def answered(self, busy_ms: float | None, now: float) -> None:
        """Charge the actual extra work of an attempt; without an answer the whole reservation is charged."""
        if self._hold is None:
            return
        usual_work, most = self._stage.state.work, self.threads
        usual = usual_work.late_extra or usual_extra(most)
        extra = usual
        if busy_ms is not None and usual_work.busy_ms:
            extra = min(max(0.0, busy_ms / usual_work.busy_ms - 1.0), most - 1.0)
            usual_work.late_extra = usual + GAIN * (extra - usual)
        self._shared.ledger.settle(self._request.budget, self._hold, round(self._stage.cost * extra), now)
        self._hold = None
