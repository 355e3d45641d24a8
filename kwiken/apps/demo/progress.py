"""Progress of the demo: one bar over all steps, or one line per step without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Protocol

from kwiken.apps.console.output import Bar, note
from kwiken.apps.demo.faults.disturb import DisturbedStage
from kwiken.apps.demo.pace.health import Finding
from kwiken.apps.demo.pace.rate_search import Pace
from kwiken.apps.report.model.number_format import percent


class DemoWatch(Protocol):
    """Receiver of the demo's progress."""

    def step(self, label: str, seconds: float) -> None:
        """Begin a step that takes a number of seconds of load; 0 if that is not known."""

    def passed(self, seconds: float) -> None:
        """Add seconds of load to the progress."""

    def pace(self, pace: Pace, seconds: float) -> None:
        """Report the rate, its reason, and the seconds of load that follow."""

    def void(self, finding: Finding) -> None:
        """Report that a stretch of the run tells nothing."""

    def slower(self, reason: str, rate: float, slower: float) -> None:
        """Report that a rate is given up for a slower one."""

    def disturbance(self, flaky: Mapping[str, DisturbedStage]) -> None:
        """Report the shares of the time that were drawn."""


class TerminalWatch:
    """Progress on stderr.

    Args:
        bar: progress bar in seconds of load.
    """

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._before = self._length = self._passed = 0.0
        self._plain = not sys.stderr.isatty()
        self._began = time.monotonic()

    def step(self, label: str, seconds: float) -> None:
        """Begin a step; the step before is complete, whatever time it took."""
        self._before += self._length
        self._length, self._passed = seconds, 0.0
        length = f" for {seconds:.0f} s" if seconds else ""
        if self._plain:
            note(f"{time.monotonic() - self._began:5.1f} s  {label}{length}")
        else:
            self._bar.update(self._before, label=f"{label}{length}")

    def passed(self, seconds: float) -> None:
        """Advance the bar by seconds of load."""
        self._passed = min(self._passed + seconds, self._length)
        self._bar.update(self._before + self._passed)

    def pace(self, pace: Pace, seconds: float) -> None:
        """Note the rate and its reason; the bar ends after the seconds that follow."""
        note(f"{pace.line}; {seconds:.0f} s of load")
        self._bar.update(self._before + self._passed, total=self._before + self._length + seconds)

    def void(self, finding: Finding) -> None:
        """Note what is wrong with the stretch that has just ended."""
        note(f"{time.monotonic() - self._began:5.1f} s  these seconds do not count: {finding.words}")

    def slower(self, reason: str, rate: float, slower: float) -> None:
        """Note that the run starts again at a slower rate."""
        note(f"at {rate:g} requests a second {reason}: once more at {slower:.2g}")

    def disturbance(self, flaky: Mapping[str, DisturbedStage]) -> None:
        """Note the shares of the time that were drawn."""
        if not flaky:
            note("calm: nothing is disturbed")
            return
        shares = ", ".join(f"{stage} {percent(one.target.share)}" for stage, one in flaky.items())
        note(f"the seed draws the stages whose replicas are paused in bursts, a share of the time: {shares}")
