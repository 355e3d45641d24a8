"""What pays for a stage's copies."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from kwiken.arrays import Floats
from kwiken.queueing.simulator.station import Earnings

HALVINGS: Final = 64  # of what is kept: then there is nothing left of it


class Account:
    """Pays for copies out of what calls earn.

    Args:
        earnings: its rules.
        arrivals: (m,) when the calls that might earn come, ascending.
    """

    def __init__(self, earnings: Earnings, arrivals: Floats) -> None:
        self._fraction, self._burst = earnings.fraction, earnings.burst
        # What must be there for a call by how often it was denied: half of the burst is kept for calls denied
        # before, a quarter for those denied twice, ...
        halvings = range(1, HALVINGS) if earnings.keeps_back else ()
        kept = [self._burst * 0.5**times for times in halvings] or [0.0]
        self._needed = [max(1.0, min(1.0 + more, self._burst)) for more in kept]
        self._level = earnings.burst
        self._earned_at: list[float] = [] if earnings.prompt_only else arrivals.tolist()
        self._seen = 0  # of these
        self._denials: dict[int, int] = {}

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
        denials = self._denials.get(call, 0)
        if self._level < self._needed[min(denials, len(self._needed) - 1)]:
            self._denials[call] = denials + 1
            return False
        self._level -= 1.0
        return True
