"""Limits of a load run that a continuous integration job asserts: p99 and the share of failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError
from kwiken.loadtest.results.report import LoadReport

_ALL: Final = 100  # percent


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Limits of a run, None where none is set.

    Attributes:
        p99_ms: highest p99 over all intended requests, a failure being endless, milliseconds above 0.
        failed_percent: highest share of requests that failed or were dropped, from 0 to 100.
    """

    p99_ms: float | None
    failed_percent: float | None

    def check(self) -> None:
        """Refuse limits out of range, and NaN.

        Raises:
            InputError: names the option.
        """
        if self.p99_ms is not None and not 0 < self.p99_ms < float("inf"):
            raise InputError(f"must be milliseconds above 0; got {self.p99_ms:g}", where="--max-p99")
        if self.failed_percent is not None and not 0 <= self.failed_percent <= _ALL:
            raise InputError(
                f"must be a percentage from 0 to 100; got {self.failed_percent:g}", where="--max-failed"
            )

    def exceeded(self, report: LoadReport) -> list[str]:
        """One sentence for each limit that a run exceeded."""
        found = []
        requests = report.requests
        lost = requests["failed"] + requests["dropped"]
        percent = _ALL * lost / requests["intended"] if requests["intended"] else 0.0
        p99_ms = report.latency_with_failures["p99_ms"]
        if self.p99_ms is not None and requests["intended"]:
            if p99_ms is None:
                found.append(
                    f"p99 is endless, above --max-p99 {self.p99_ms:g}: {percent:.3g}% got no good answer"
                )
            elif p99_ms > self.p99_ms:
                found.append(f"p99 is {p99_ms:.2f} ms, above --max-p99 {self.p99_ms:g}")
        if self.failed_percent is not None and percent > self.failed_percent:
            found.append(
                f"{lost} of {requests['intended']} requests failed or were dropped, {percent:.3g}%, above "
                f"--max-failed {self.failed_percent:g}"
            )
        return found
