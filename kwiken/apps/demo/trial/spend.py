"""Spend of an arm: cost of copies over cost of primary calls, in total and in the worst window. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class SpentCall:
    """One call to a replica.

    Attributes:
        at_s: time of sending on the arm's own clock, in seconds.
        kind: `primary`, `reissue` or `retry`.
        cost: cost of one call of that stage.
        late: whether the call was sent or prioritised because its request was late. Such copies are paid from
            the catch-up budget and not from that for reissues, as in the runtime's ledger.
    """

    at_s: float
    stage: str
    kind: str
    cost: float
    late: bool = False

    @property
    def reissued(self) -> float:
        """Cost that the budget for reissues pays for the call."""
        return self.cost if self.kind == "reissue" and not self.late else 0.0

    @property
    def caught_up(self) -> float:
        """Cost that catch-up pays for the call, without extra threads, whose use only the ledger knows."""
        return self.cost if self.kind == "reissue" and self.late else 0.0


def total_spend(calls: Sequence[SpentCall]) -> float:
    """Cost of the reissues as a fraction of the cost of the primary calls; 0 if there are none."""
    work = _work(calls)
    return sum(call.reissued for call in calls) / work if work > 0 else 0.0


def catch_up_spend(calls: Sequence[SpentCall]) -> float:
    """Cost of late requests' copies as a fraction of the cost of the primary calls."""
    work = _work(calls)
    return sum(call.caught_up for call in calls) / work if work > 0 else 0.0


def spend_by_stage(calls: Sequence[SpentCall]) -> dict[str, float]:
    """Cost of each stage's reissues as a fraction of the cost of all primary calls; they sum to the total."""
    work = _work(calls)
    spent: dict[str, float] = {}
    for call in calls:
        if call.reissued > 0 and work > 0:
            spent[call.stage] = spent.get(call.stage, 0.0) + call.reissued / work
    return spent


def worst_window(calls: Sequence[SpentCall], length_s: float) -> float:
    """Highest spend over any window of the arm's own time; of the whole arm if it is shorter than a window.

    A window's spend changes only when a call enters or leaves it, so only windows that start or end at a call
    are computed.

    Args:
        length_s: length of the arm on its own clock, in seconds.
    """
    if length_s <= WINDOW_S:
        return total_spend(calls)
    ordered = sorted(calls, key=lambda call: call.at_s)
    at = np.array([call.at_s for call in ordered])
    work = _running([call.cost if call.kind == "primary" else 0.0 for call in ordered])
    extra = _running([call.reissued for call in ordered])
    starts = np.concatenate([at[at + WINDOW_S <= length_s], at[at >= WINDOW_S] - WINDOW_S, [0.0]])
    # From the first call at or after the start to the last one at or before the end, both included.
    low = np.searchsorted(at, starts - 1e-9, side="left")
    high = np.searchsorted(at, starts + WINDOW_S + 1e-9, side="right")
    done, spent = work[high] - work[low], extra[high] - extra[low]
    return float(np.max(np.divide(spent, done, out=np.zeros_like(spent), where=done > 0), initial=0.0))


def _work(calls: Sequence[SpentCall]) -> float:
    return sum(call.cost for call in calls if call.kind == "primary")


def _running(values: list[float]) -> NDArray[np.float64]:
    """Cumulative sums, (n + 1,), from 0 to the total."""
    return np.array(list(accumulate(values, initial=0.0)))
