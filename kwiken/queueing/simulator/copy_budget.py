"""Copy budget of a stage in the simulator: the account that calls pay into and copies are paid from."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from kwiken.arrays import Floats
from kwiken.queueing.simulator.station import Earnings

MAX_HALVINGS: Final = 64  # halvings of the reserve, after which it is practically 0


class Account:
    """Account of a stage that pays for copies out of the earnings of calls.

    Args:
        earnings: rules of the account.
        arrivals: (m,) arrival times of the calls that may earn, ascending, milliseconds.
    """

    def __init__(self, earnings: Earnings, arrivals: Floats) -> None:
        self._fraction, self._burst = earnings.fraction, earnings.burst
        # Level that an account must have for a call's copy, by number of denials of that call: half of the
        # burst is reserved for calls denied before, a quarter for calls denied twice, ...
        halvings = range(1, MAX_HALVINGS) if earnings.keeps_back else ()
        kept = [self._burst * 0.5**times for times in halvings] or [0.0]
        self._needed = [max(1.0, min(1.0 + more, self._burst)) for more in kept]
        self._level = earnings.burst
        self._earned_at: list[float] = [] if earnings.prompt_only else arrivals.tolist()
        self._seen = 0  # number of earnings already added
        self._denials: dict[int, int] = {}

    def earn_at(self, moment: float) -> None:
        """Add the earning of a call that will be prompt, at its time-out."""
        self._earned_at.append(moment)

    def earn(self) -> None:
        """Add the earning of a call whose time-out passes now, with its answer received before."""
        self._level = min(self._burst, self._level + self._fraction)

    def pays(self, call: int, now: float) -> bool:
        """Pay for one copy of a call if the level suffices; return whether it did."""
        seen = bisect_right(self._earned_at, now, lo=self._seen)
        self._level = min(self._burst, self._level + self._fraction * (seen - self._seen))
        self._seen = seen
        denials = self._denials.get(call, 0)
        if self._level < self._needed[min(denials, len(self._needed) - 1)]:
            self._denials[call] = denials + 1
            return False
        self._level -= 1.0
        return True
