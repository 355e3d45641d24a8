"""Search for the rate that leaves queues short, by a load that doubles step by step. Pure.

Processor time per request is the slope of a line through the steps, so that what the processes use when idle
is not charged to requests. The rate is the smallest of four bounds: 1. a third of the processors that the
program could have, and less where these are fewer than two, 2. a third of one processor for the busiest
process, which has a single thread, 3. the last step at which processes did not yet queue for processors,
4. `MAX_DEFAULT_RATE`. A slow machine may be used up to a half by `MIN_RATE`, below which nothing can be told.

Fewer than two: by Erlang's C formula a request finds both of two processors busy with probability 1/6 when a
third of them is used, and a single processor when a sixth of it is used. At a third of a single processor
requests that wait for each other would make the tail, and there copies are of no use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from kwiken.base.machine.processor_use import ProcessorUse

TARGET_SHARE = 1 / 3  # of what the program could have: queues are short, and copies find room
SHARE_BY_PROCESSOR = 1 / 6  # likewise, for each processor that the program could have
MAX_TARGET_SHARE = 1 / 2  # where the target is less than `MIN_RATE` needs
STEP_S = 2  # length of a step; a file of arrivals has one rate a second
RATES = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0)  # requests a second
MIN_RATE = 12.0  # below this the longest run has too few requests for a p99 of each arm
MAX_DEFAULT_RATE = 100.0  # bounds the spans on the disk: 15 kB a request
MAX_WAITING = 4.0  # multiple of the running time up to which processes may queue for processors
WANTED_REQUESTS = 4500  # of a run: a third to learn from, some 600 for each of four arms
MIN_DEFAULT_S, MAX_DEFAULT_S = 90.0, 250.0  # at `MIN_RATE` the longest gives each arm its 400 requests
MAX_WALL_S = 330.0  # from the first load to the end of the last attempt's load


@dataclass(frozen=True)
class RateStep:
    """Use of the processors while requests came at one rate, in requests a second."""

    rate: float
    use: ProcessorUse


@dataclass(frozen=True)
class Pace:
    """Rate of a run, and what the machine was measured to do.

    Attributes:
        rate: requests a second.
        given: processors that the program could have; NaN where that cannot be measured.
        request_cpu_s: processor time of one request, over all processes, in seconds; NaN likewise.
        share: expected use at that rate, as a share of `given`; NaN likewise.
        taken: processors that others used meanwhile; NaN likewise.
    """

    rate: float
    given: float = math.nan
    request_cpu_s: float = math.nan
    share: float = math.nan
    taken: float = math.nan

    @property
    def line(self) -> str:
        """Sentence on the rate and its reason."""
        if not math.isfinite(self.given):
            return (
                f"{self.rate:g} requests a second; what this machine's processors do cannot be read, "
                "so nobody watches whether that is too much for them"
            )
        return (
            f"this machine gives {self.given:.2g} processors and a request takes "
            f"{1000 * self.request_cpu_s:.2g} ms of them: {self.rate:g} requests a second use "
            f"{self.share:.0%} of what it gives"
        )


class RateSearch:
    """Steps of the search so far."""

    def __init__(self) -> None:
        self._steps: list[RateStep] = []

    def add(self, step: RateStep) -> bool:
        """Add a step.

        Returns:
            Whether the search is over: the next step, at twice the rate, would be more than what is wanted.
        """
        self._steps.append(step)
        return 2 * step.use.share > target_share(step.use.given) or _waits(step) or step.rate >= RATES[-1]

    def pace(self, fixed: float | None = None) -> Pace | None:
        """Rate that the steps lead to; None if even `MIN_RATE` would be too much.

        Args:
            fixed: rate that the user wants, in requests a second; None for the one that fits.
        """
        if not self._steps:
            return Pace(fixed if fixed is not None else RATES[-2] / 2)
        given = median(step.use.given for step in self._steps)
        idle, slope = _line([step.rate for step in self._steps], [step.use.own for step in self._steps])
        rate = fixed
        if rate is None:
            bounds = [self._unqueued(), self._single(), (MAX_TARGET_SHARE * given - idle) / slope]
            if min(bounds) < MIN_RATE:
                return None
            fits = rounded_down(min(*bounds, (target_share(given) * given - idle) / slope))
            rate = min(max(fits, MIN_RATE), MAX_DEFAULT_RATE)
        return Pace(
            rate=rate,
            given=given,
            request_cpu_s=slope,
            share=(idle + slope * rate) / given,
            taken=median(step.use.taken for step in self._steps),
        )

    @property
    def words(self) -> str:
        """Figures of the last step, as part of a sentence."""
        step, use = self._steps[-1], self._steps[-1].use
        waits = f", and processes queued {use.waiting:.1f} times as long as they ran" if use.waiting else ""
        return (
            f"{step.rate:g} requests a second used {use.share:.0%} of the {use.given:.2g} processors that "
            f"it gives (it has {use.processors}, others used {use.taken:.2g}{_quota(use)}){waits}; "
            f"{MIN_RATE:g} are the fewest that tell anything"
        )

    def _unqueued(self) -> float:
        """Highest rate at which processes did not queue for processors; infinite if they never did."""
        if not any(_waits(step) for step in self._steps):
            return math.inf
        return max((step.rate for step in self._steps if not _waits(step)), default=0.0)

    def _single(self) -> float:
        """Rate at which the busiest process uses a third of one processor."""
        last = self._steps[-1]
        busiest = max(last.use.by_process.values(), default=0.0)
        return TARGET_SHARE * last.rate / busiest if busiest > 0 else math.inf


def target_share(given: float) -> float:
    """Share that the demo wants to use of the processors that it could have.

    Args:
        given: number of processors that the program could have.
    """
    return min(TARGET_SHARE, SHARE_BY_PROCESSOR * given)


def _quota(use: ProcessorUse) -> str:
    return f", the quota is {use.quota:.2g}" if math.isfinite(use.quota) else ""


def _waits(step: RateStep) -> bool:
    return step.use.waiting is not None and step.use.waiting > MAX_WAITING


def _line(rates: Sequence[float], used: Sequence[float]) -> tuple[float, float]:
    """Use without requests, not negative, and use for one request a second, positive, by least squares."""
    x, y = np.asarray(rates), np.asarray(used)
    spread = float(np.sum((x - x.mean()) ** 2))
    slope = float(np.sum((x - x.mean()) * (y - y.mean()))) / spread if spread > 0 else 0.0
    idle = float(y.mean() - slope * x.mean())
    if slope <= 0 or idle < 0:
        # Through the origin: too few or too uneven steps to tell idle use from that of requests.
        idle, slope = 0.0, float(np.sum(x * y) / np.sum(x * x))
    return idle, max(slope, 1e-6)


def rounded_down(rate: float) -> float:
    """Rate with two significant digits, so that the same machine gives the same rate more often."""
    if rate < 1:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return math.floor(rate / unit + 1e-9) * unit


def seconds_for(rate: float, passed_s: float = 0.0) -> float | None:
    """Seconds of load by default at a rate, so that the p99 of each arm has enough requests.

    Args:
        passed_s: seconds that other attempts have taken.

    Returns:
        The seconds; None if too few are left for the least number of requests.
    """
    room_s = min(MAX_DEFAULT_S, MAX_WALL_S - passed_s)
    if room_s * rate < MIN_RATE * MAX_DEFAULT_S:
        return None
    return math.floor(min(room_s, max(MIN_DEFAULT_S, WANTED_REQUESTS / rate)))
