"""Copy budget of a stage in the simulator: the runtime's account, fed with calls that earn at known times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from kwiken.base.arrays import Floats
from kwiken.model.plan.accounts import CALL, Account
from kwiken.model.plan.windows import PEAK_BUCKETS, PEAK_WINDOW_S
from kwiken.tail.queueing.simulator.station import Earnings

BUCKET_MS: Final = 1000 * PEAK_WINDOW_S / PEAK_BUCKETS  # time that an account does not divide


class CopyBudget:
    """Account of a stage that pays for copies out of the earnings of calls.

    Args:
        arrivals: (m,) arrival times of the calls that may earn, ascending, milliseconds.
    """

    def __init__(self, earnings: Earnings, arrivals: Floats) -> None:
        self._account = Account(earnings.bounds)
        self._earned_at: list[float] = [] if earnings.prompt_only else arrivals.tolist()
        self._seen = 0  # number of earnings already added
        self._denials: dict[int, int] = {}

    def earn_at(self, moment: float) -> None:
        """Add the earning of a call that will be prompt, at its time-out; times must ascend."""
        self._earned_at.append(moment)

    def earn(self, now: float) -> None:
        """Add the earning of a call whose time-out passes now, with its answer received before."""
        self._add_earnings(now)
        self._account.earn(CALL, now / 1000)

    def pays(self, call: int, now: float) -> bool:
        """Pay for one copy of a call if the account allows it; return whether it did."""
        self._add_earnings(now)
        denials = self._denials.get(call, 0)
        if self._account.refusal(CALL, now / 1000, denied=denials):
            self._denials[call] = denials + 1
            return False
        self._account.spend(CALL, now / 1000)
        return True

    def _add_earnings(self, now: float) -> None:
        """Add the earnings until now, those of one bucket of time at once."""
        times, first = self._earned_at, self._seen
        self._seen = end = bisect_right(times, now, lo=first)
        while first < end:
            moment = times[first]
            after = bisect_left(times, (moment // BUCKET_MS + 1) * BUCKET_MS, lo=first, hi=end)
            self._account.earn((after - first) * CALL, moment / 1000)
            first = after
