"""Dial that follows how fast services spend their allowance of late requests. Pure: counts in, a dial out.

A p99 target allows one request in a hundred to be late. The burn rate is the share of late requests over that
allowance: at 1 the allowance lasts as long as the requests do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kwiken.allocator.packing.dial import MIDDLE, MIN_RISK_DIAL

ALLOWANCE: Final = 0.01  # share of the requests that may be later than their p99 target
BURNING: Final = 1.0  # burn rate above which the dial goes up
QUIET: Final = 0.5  # burn rate below which a period is quiet
QUIET_PERIODS: Final = 168  # in a row before the dial goes down: a week of hours
MIN_REQUESTS: Final = 100  # of a service in a period; a burn rate of fewer says nothing


@dataclass(frozen=True)
class LateCount:
    """Requests of a service in some time.

    Attributes:
        requests: number of requests that ended, 0 or more.
        late: number of them that failed or were later than the target.
    """

    requests: float
    late: float

    def plus(self, other: LateCount) -> LateCount:
        """Both counts together."""
        return LateCount(self.requests + other.requests, self.late + other.late)

    @property
    def burn(self) -> float | None:
        """Burn rate, 0 or more; None with too few requests."""
        return None if self.requests < MIN_REQUESTS else self.late / self.requests / ALLOWANCE


class AutoDial:
    """A dial from 0 to 10 that goes up by one for each period in which a service burns its allowance.

    After `QUIET_PERIODS` quiet periods in a row it goes down by one. A period in which no service had enough
    requests changes nothing.

    Args:
        dial: where the dial stands at first, from 0 to 10.
    """

    def __init__(self, dial: float = MIDDLE) -> None:
        self.dial = dial
        self.quiet = 0
        self._counts: dict[str, LateCount] = {}

    def observe(self, counts: Mapping[str, LateCount]) -> None:
        """Count requests of the present period, by service."""
        for service, count in counts.items():
            self._counts[service] = self._counts.get(service, LateCount(0, 0)).plus(count)

    def turn(self) -> float | None:
        """End the period: turn the dial; returns the largest burn rate of a service, None if unknown."""
        burns = [burn for count in self._counts.values() if (burn := count.burn) is not None]
        self._counts.clear()
        if not burns:
            return None
        worst = max(burns)
        self.quiet = self.quiet + 1 if worst < QUIET else 0
        if worst > BURNING:
            self.dial = min(MIN_RISK_DIAL, self.dial + 1)
        elif self.quiet >= QUIET_PERIODS:
            self.dial, self.quiet = max(0.0, self.dial - 1), 0
        return worst
