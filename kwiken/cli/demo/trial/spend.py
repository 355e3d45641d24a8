"""What an arm spent: copies over primary calls, each weighed by its cost; and the worst window. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a replica.

    Attributes:
        at_s: when it was sent, on the arm's own clock.
        stage: of which stage.
        kind: `primary`, `reissue` or `retry`.
        cost: of one call of that stage.
        late: whether it was sent, or went ahead, because its request was late. Copies of that kind are paid
            by catch-up and not by the budget for reissues, as in the runtime's ledger.
    """

    at_s: float
    stage: str
    kind: str
    cost: float
    late: bool = False

    @property
    def reissued(self) -> float:
        """What the budget for reissues pays for it."""
        return self.cost if self.kind == "reissue" and not self.late else 0.0

    @property
    def caught_up(self) -> float:
        """What catch-up pays for it, but for threads: what they burnt is known to the ledger only."""
        return self.cost if self.kind == "reissue" and self.late else 0.0


def total_spend(calls: Sequence[Call]) -> float:
    """Cost of the reissues as a fraction of the cost of the primary calls; 0 where there are none."""
    work = _work(calls)
    return sum(call.reissued for call in calls) / work if work > 0 else 0.0


def catch_up_spend(calls: Sequence[Call]) -> float:
    """Cost of late requests' copies as a fraction of the cost of the primary calls."""
    work = _work(calls)
    return sum(call.caught_up for call in calls) / work if work > 0 else 0.0


def spend_by_stage(calls: Sequence[Call]) -> dict[str, float]:
    """Cost of each stage's reissues as a fraction of the cost of all primary calls; they sum to the total."""
    work = _work(calls)
    spent: dict[str, float] = {}
    for call in calls:
        if call.reissued > 0 and work > 0:
            spent[call.stage] = spent.get(call.stage, 0.0) + call.reissued / work
    return spent


def worst_window(calls: Sequence[Call], length_s: float, *, window_s: float = WINDOW_S) -> float:
    """The highest spend over any window of the arm's own time; of the whole arm where it is shorter.

    A window's spend changes only where a call enters or leaves, so windows that end or start at a
    call are all that need looking at.

    Args:
        calls: of the arm.
        length_s: of the arm, on its own clock.
        window_s: length of a window.
    """
    if length_s <= window_s:
        return total_spend(calls)
    ordered = sorted(calls, key=lambda call: call.at_s)
    at = np.array([call.at_s for call in ordered])
    work = _running([call.cost if call.kind == "primary" else 0.0 for call in ordered])
    extra = _running([call.reissued for call in ordered])
    starts = np.concatenate([at[at + window_s <= length_s], at[at >= window_s] - window_s, [0.0]])
    # From the first call at or after the start to the last one at or before the end, both included.
    low = np.searchsorted(at, starts - 1e-9, side="left")
    high = np.searchsorted(at, starts + window_s + 1e-9, side="right")
    done, spent = work[high] - work[low], extra[high] - extra[low]
    return float(np.max(np.divide(spent, done, out=np.zeros_like(spent), where=done > 0), initial=0.0))


def _work(calls: Sequence[Call]) -> float:
    return sum(call.cost for call in calls if call.kind == "primary")


def _running(values: list[float]) -> NDArray[np.float64]:
    """Sums of all that come before each place, and of all at the end."""
    return np.array(list(accumulate(values, initial=0.0)))
