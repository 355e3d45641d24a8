"""Looks at a comparison that goes on until it is decided. A state machine; counts are passed in.

Looks come at numbers of requests that are stated before: each half again as many as the one before. Look k
has the part 1 / (k (k + 1)) of the chance of error, so that all looks together, however many there are,
have no more than the whole. Each look is the exact test of a trial (`kwiken.tail.autopilot.comparison`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from kwiken.tail.autopilot.arms import ArmCounts
from kwiken.tail.autopilot.comparison import ERROR, OPEN, ArmComparison, compare

FIRST_REQUESTS: Final = 300  # of all arms together
GROWTH: Final = 1.5
PLAN, NONE, RIVAL = "plan", "none", "one_percentile"
OTHERS: Final = (NONE, RIVAL)


class ComparisonLooks:
    """Verdicts of a plan beside no plan and beside its rival.

    Attributes:
        verdicts: first verdict of each comparison that was not open, by the other arm.
        looks: number of looks so far.
    """

    def __init__(self) -> None:
        self.verdicts: dict[str, ArmComparison] = {}
        self.looks = 0
        self.next_at = FIRST_REQUESTS

    @property
    def decided(self) -> bool:
        """Whether every comparison has a verdict."""
        return len(self.verdicts) == len(OTHERS)

    def look(self, arms: Mapping[str, ArmCounts]) -> bool:
        """Look, if enough requests have come since the last look; returns whether it did.

        Args:
            arms: requests so far by arm.
        """
        total = sum(each.requests for each in arms.values())
        if total < self.next_at:
            return False
        self.looks += 1
        error = ERROR / len(OTHERS) / (self.looks * (self.looks + 1))
        for other in OTHERS:
            found = compare(arms[PLAN], arms[other], error=error)
            if found.verdict != OPEN:
                self.verdicts.setdefault(other, found)
        self.next_at = ceil(max(self.next_at, total) * GROWTH)
        return True
