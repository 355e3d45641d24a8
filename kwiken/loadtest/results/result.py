"""Progress and result of one load run, and what limited it: the machine or the load generator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kwiken.base.machine.processor_use import ProcessorUse
from kwiken.loadtest.inputs.settings import Prepared
from kwiken.loadtest.results.outcome import RequestOutcome
from kwiken.loadtest.results.report import LoadReport

MAX_LATE_SHARE = 0.01  # of the requests, above which latencies are not to be trusted
MAX_FAILED_SHARE = 0.01  # of the requests, above which p99 is that of the requests that were left
MIN_SECONDS = 2.0  # of a run: the counters of the processors are too coarse for less
MAX_CLIENT_USE = 0.8  # of one processor, which is all that the generator's single thread can use
MAX_BUSY = 0.9  # share of the machine's processors
MAX_STOLEN = 0.1  # share of the machine's processors that the hypervisor takes
MAX_THROTTLED = 0.1  # share of the quota's periods


def bottlenecks(
    requests: Mapping[str, int], errors: Mapping[str, int], use: ProcessorUse | None
) -> Iterator[str]:
    """Sentences on what makes the latencies of a run doubtful; none for a sound run.

    There are six cases: 1. late starts, 2. failures, 3. a generator that needs more than its processor, 4. a
    machine without idle processors, 5. a hypervisor that takes processors away, 6. a quota that is used up.

    Args:
        use: use of the processors during the run, with the generator as the program; None if unknown.
    """
    intended = requests["intended"]
    if requests["late"] > MAX_LATE_SHARE * intended:
        waited = use.waiting if use is not None else None
        more = f"; it waited for a processor {waited:.1f} times as long as it ran" if waited else ""
        yield (
            f"the generator was late for {requests['late']} of {intended} requests (see start lag{more}): "
            "the load generator was starved of CPU"
        )
    lost = requests["failed"] + requests["dropped"]
    if lost > MAX_FAILED_SHARE * intended and requests["ok"]:
        reasons = ", ".join(f"{error} ({count})" for error, count in errors.items())
        yield f"{lost} of {intended} requests failed ({reasons}): the target is overloaded or broken"
    if use is None or use.seconds < MIN_SECONDS:
        return
    if use.own > MAX_CLIENT_USE:
        yield (
            f"the generator used {use.own:.0%} of the one processor that it can use: it is the bottleneck; "
            "start several with different seeds"
        )
    if use.own + use.others > MAX_BUSY * use.processors:
        yield (
            f"this machine's {use.processors} processors were {_busy(use):.0%} busy, {use.own:.0%} of one by "
            "the generator: the latencies are those of a machine without idle processors"
        )
    if use.stolen > MAX_STOLEN * use.processors:
        yield f"the hypervisor took {use.stolen:.2g} of this machine's {use.processors} processors away"
    if use.throttled > MAX_THROTTLED:
        yield (
            f"the quota of {use.quota:.2g} processors was used up in {use.throttled:.0%} of its periods, so "
            "the generator or what runs beside it had to wait"
        )


def machine_json(use: ProcessorUse | None) -> dict[str, Any] | None:
    """Use of the processors during a run as plain data; None if unknown.

    `busy` and `stolen` are shares of the machine's processors, `generator` is processors' worth of time,
    `generator_waiting` a multiple of the generator's running time, and `quota` is None without a limit.
    """
    if use is None:
        return None
    return {
        "processors": use.processors,
        "quota": use.quota if math.isfinite(use.quota) else None,
        "busy": round(_busy(use), 4),
        "stolen": round(use.stolen / use.processors, 4),
        "throttled": round(use.throttled, 4),
        "generator": round(use.own, 4),
        "generator_waiting": None if use.waiting is None else round(use.waiting, 3),
    }


def _busy(use: ProcessorUse) -> float:
    return min(1.0, (use.own + use.others) / use.processors)


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
