"""Progress and result of one load run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kwiken.base.machine.processor_use import ProcessorUse
from kwiken.loadtest.inputs.settings import Prepared
from kwiken.loadtest.results.bottleneck import bottlenecks, machine_json
from kwiken.loadtest.results.outcome import RequestOutcome
from kwiken.loadtest.results.report import LoadReport


@dataclass(slots=True)
class Progress:
    """Counts of a run so far, the warm-up included.

    Attributes:
        seconds: time since the start of the run.
        ok: number of requests answered with a status from 200 to 299.
        failed: number of requests answered with another status, or not at all.
        dropped: number of requests that were never sent because too many were in flight.
        in_flight: number of requests that wait for their answer.
    """

    seconds: float = 0.0
    ok: int = 0
    failed: int = 0
    dropped: int = 0
    in_flight: int = 0

    def add(self, outcome: RequestOutcome) -> None:
        """Count one outcome."""
        if outcome.error is None:
            self.ok += 1
        elif outcome.dropped:
            self.dropped += 1
        else:
            self.failed += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Result of a finished run.

    Attributes:
        ready: checked settings, with the contents of the files they name.
        answered: number of requests that got any HTTP answer, warm-up included.
        interrupted: number of the signal that ended the run early; None if it ran to its end.
        records_failure: reason why the records file is incomplete; None if it is complete.
        use: use of this machine's processors during the run, with the generator as the program; None where it
            cannot be read.
        first_failure: status and message of the first answer that was no success, warm-up included; None if
            there was none.
    """

    ready: Prepared
    report: LoadReport
    answered: int
    interrupted: int | None
    records_failure: str | None
    use: ProcessorUse | None = None
    first_failure: str | None = None

    @property
    def bottlenecks(self) -> list[str]:
        """Sentences on what limited the run besides the target: this machine, or the generator itself."""
        return list(bottlenecks(self.report.requests, self.report.errors, self.use))

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, as `kwiken load --json` prints it."""
        settings = self.ready.settings
        asked = {
            "url": self.ready.target.url,
            "arrivals": settings.arrivals,
            "seed": settings.seed,
            "interrupted": self.interrupted is not None,
            "first_failure": self.first_failure,
        }
        return asked | self.report.to_json() | {"machine": machine_json(self.use)}
