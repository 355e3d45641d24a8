"""One attempt at a rate: which stretch comes next, which is repeated, and when the rate is given up. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from kwiken.apps.demo.pace.health import Finding
from kwiken.apps.demo.pace.rate_search import MIN_RATE, rounded_down, target_share
from kwiken.base.errors import KwikenError
from kwiken.base.machine.processor_use import ProcessorUse

MAX_SLOWDOWNS = 2
MAX_VOID_SHARE = 1 / 3  # of an attempt's stretches, which may be repeated or, while learning, passed over
MIN_VOID_ALLOWED = 2
MAX_SEVERE = 1  # severe findings that may be an accident, such as a program that was started beside this one
MIN_SLOWER, MAX_SLOWER = 0.25, 0.7  # bounds of the factor by which a rate is lowered


class InconclusiveRunError(KwikenError):
    """The run tells nothing about the plan: the machine did not let it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this run tells nothing: {reason}")


@dataclass
class RateTrial:
    """State of an attempt.

    A stretch that is void is repeated at once. The attempt fails at the second severe finding, or once more
    stretches were void than a third of them.

    Attributes:
        stretches: arm and number of the round of each stretch that is still to come, in order.
        excess: use of the processors in each void stretch as a multiple of the target, where it was measured.
    """

    stretches: list[tuple[str, int]]
    void: list[Finding] = field(default_factory=list)
    excess: list[float] = field(default_factory=list)
    severe: int = 0

    def __post_init__(self) -> None:
        self.allowed = max(MIN_VOID_ALLOWED, math.floor(MAX_VOID_SHARE * len(self.stretches)))

    @property
    def failed(self) -> bool:
        """Whether going on at this rate is of no use."""
        return self.severe > MAX_SEVERE or len(self.void) > self.allowed

    @property
    def current(self) -> tuple[str, int] | None:
        """Stretch to run now; None if all are done or the attempt has failed."""
        return None if self.failed or not self.stretches else self.stretches[0]

    def note(self, finding: Finding | None, use: ProcessorUse | None = None) -> bool:
        """Note how the current stretch went; returns whether it counts.

        Args:
            finding: what is wrong with it; None for nothing.
            use: use of the processors in it; None where it cannot be read.
        """
        if finding is None:
            self.stretches.pop(0)
            return True
        self.void.append(finding)
        self.excess += [use.share / target_share(use.given)] if use is not None else []
        self.severe += finding.severe
        return False

    @property
    def reason(self) -> str:
        """Reason of a failed attempt, in words: the last finding, and how many stretches told nothing."""
        often = f"; {len(self.void)} stretches told nothing" if len(self.void) > 1 else ""
        return f"{self.void[-1].words}{often}"


def slower_rate(rate: float, excess: Iterable[float], *, fixed: bool, slowdowns: int) -> float | None:
    """Rate of the next attempt after one has failed; None to give up.

    Args:
        rate: rate of the failed attempt, in requests a second.
        excess: use of the processors in its void stretches, as multiples of the target.
        fixed: whether the user has fixed the rate.
        slowdowns: number of times that the rate was lowered so far.
    """
    if fixed or slowdowns >= MAX_SLOWDOWNS:
        return None
    worst = max(excess, default=0.0)
    factor = min(MAX_SLOWER, max(MIN_SLOWER, 1 / worst)) if worst > 0 else MAX_SLOWER
    slower = max(MIN_RATE, rounded_down(rate * factor))
    return slower if slower < rate else None
