"""What the demo tells its user while it runs: one bar over all, or a line a step without terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Protocol

from kwiken.cli.demo.faults import Flaky
from kwiken.cli.report.model import percent
from kwiken.cli.shared import Bar, note


class Watch(Protocol):
    """Hears how far the demo is."""

    def step(self, label: str, seconds: float) -> None:
        """A step begins that takes so many seconds of load; 0 where that is not known."""

    def passed(self, seconds: float) -> None:
        """So much time under load went by."""

    def disturbance(self, flaky: Mapping[str, Flaky]) -> None:
        """Which shares of time were drawn."""


class TerminalWatch:
    """Tells it on stderr.

    Args:
        bar: moved on by the seconds of load.
    """

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._before = self._length = self._passed = 0.0
        self._plain = not sys.stderr.isatty()
        self._began = time.monotonic()

    def step(self, label: str, seconds: float) -> None:
        """A step begins; the one before is done, however long it took."""
        self._before += self._length
        self._length, self._passed = seconds, 0.0
        length = f" for {seconds:.0f} s" if seconds else ""
        if self._plain:
            note(f"{time.monotonic() - self._began:5.1f} s  {label}{length}")
        else:
            self._bar.update(self._before, label=f"{label}{length}")

    def passed(self, seconds: float) -> None:
        """Time under load went by."""
        self._passed = min(self._passed + seconds, self._length)
        self._bar.update(self._before + self._passed)

    def disturbance(self, flaky: Mapping[str, Flaky]) -> None:
        """Say which shares were drawn."""
        if not flaky:
            note("calm: nothing is disturbed")
            return
        shares = ", ".join(f"{stage} {percent(one.target.share)}" for stage, one in flaky.items())
        note(f"a replica of each stage, any of them, is paused in bursts, a share of the time: {shares}")
