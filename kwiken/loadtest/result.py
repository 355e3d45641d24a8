"""Progress and result of one load run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kwiken.loadtest.outcome import Outcome
from kwiken.loadtest.report import LoadReport
from kwiken.loadtest.settings import Prepared


@dataclass(slots=True)
class Progress:
    """How far a run is; all counts so far, the warm-up included.

    Attributes:
        seconds: since its start.
        ok: requests that were answered well.
        failed: requests that were answered otherwise, or not at all.
        dropped: requests that were never sent, since too many were unanswered.
        in_flight: requests without an answer yet.
    """

    seconds: float = 0.0
    ok: int = 0
    failed: int = 0
    dropped: int = 0
    in_flight: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        if outcome.error is None:
            self.ok += 1
        elif outcome.dropped:
            self.dropped += 1
        else:
            self.failed += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A finished run.

    Attributes:
        ready: the settings with what was read from them.
        report: its statistics.
        answered: how many requests got any HTTP answer, warm-up included.
        interrupted: number of the signal that ended it early, or None.
        records_failure: why the records file is not whole, or None.
    """

    ready: Prepared
    report: LoadReport
    answered: int
    interrupted: int | None
    records_failure: str | None

    def to_json(self) -> dict[str, Any]:
        """What `kwiken load --json` prints."""
        settings = self.ready.settings
        asked = {
            "url": self.ready.target.url,
            "arrivals": settings.arrivals,
            "seed": settings.seed,
            "interrupted": self.interrupted is not None,
        }
        return asked | self.report.to_json()
