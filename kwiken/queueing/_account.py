"""What pays for a stage's copies."""

from __future__ import annotations

from bisect import bisect_right

from kwiken._profile import Floats
from kwiken.queueing._station import Earnings


class Account:
    """Pays for copies out of what calls earn.

    Args:
        earnings: its rules.
        arrivals: (m,) when the calls that might earn come, ascending.
    """

    def __init__(self, earnings: Earnings, arrivals: Floats) -> None:
        self._fraction, self._burst = earnings.fraction, earnings.burst
        self._keeps_back = earnings.keeps_back
        self._level = earnings.burst
        self._earned_at: list[float] = [] if earnings.prompt_only else arrivals.tolist()
        self._seen = 0  # of these
        self._denials: dict[int, int] = {}
        self.denied = 0

    def earn_at(self, moment: float) -> None:
        """A call will be answered before its time-out, which passes at that moment; none passes earlier."""
        self._earned_at.append(moment)

    def earn(self) -> None:
        """A call was answered before its time-out, which passes now."""
        self._level = min(self._burst, self._level + self._fraction)

    def pays(self, call: int, now: float) -> bool:
        """Whether there is enough for one copy of a call, which is then spent."""
        seen = bisect_right(self._earned_at, now, lo=self._seen)
        self._level = min(self._burst, self._level + self._fraction * (seen - self._seen))
        self._seen = seen
        if self._level < self._needed(call):
            self.denied += 1
            if self._keeps_back:
                self._denials[call] = self._denials.get(call, 0) + 1
            return False
        self._level -= 1.0
        return True

    def _needed(self, call: int) -> float:
        """What must be there: half of the burst is kept for calls denied before, a quarter after two, ..."""
        if not self._keeps_back:
            return 1.0
        kept = self._burst * 0.5 ** (self._denials.get(call, 0) + 1)
        return max(1.0, min(1.0 + kept, self._burst))
