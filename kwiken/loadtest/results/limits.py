"""Limits of a load run, which continuous integration asserts: p99 of answers and first items; failures."""

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
        first_item_ms: highest p99 of the first item of answers that stream, a failure being endless,
            milliseconds above 0.
    """

    p99_ms: float | None
    failed_percent: float | None
    first_item_ms: float | None = None

    def check(self) -> None:
        """Refuse limits out of range, and NaN.

        Raises:
            InputError: names the option.
        """
        for option, limit_ms in (("--max-p99", self.p99_ms), ("--max-first-item", self.first_item_ms)):
            if limit_ms is not None and not 0 < limit_ms < float("inf"):
                raise InputError(f"must be milliseconds above 0; got {limit_ms:g}", where=option)
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
        streams = report.first_item_with_failures
        for what, limit, limit_ms, ladder in (
            ("p99", "--max-p99", self.p99_ms, report.latency_with_failures),
            ("p99 of the first item", "--max-first-item", self.first_item_ms, streams or {}),
        ):
            if limit_ms is None or not requests["intended"]:
                continue
            p99_ms = ladder.get("p99_ms")
            if p99_ms is None:
                why = f"{percent:.3g}% got no good answer" if ladder else "no answer streams"
                found.append(f"{what} is endless, above {limit} {limit_ms:g}: {why}")
            elif p99_ms > limit_ms:
                found.append(f"{what} is {p99_ms:.2f} ms, above {limit} {limit_ms:g}")
        if self.failed_percent is not None and percent > self.failed_percent:
            found.append(
                f"{lost} of {requests['intended']} requests failed or were dropped, {percent:.3g}%, above "
                f"--max-failed {self.failed_percent:g}"
            )
        return found
