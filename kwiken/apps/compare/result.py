"""Result of a comparison on a running service: latencies by arm, cuts of p99 with intervals, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from kwiken.apps.compare.looks import NONE, OTHERS, PLAN, RIVAL, ComparisonLooks
from kwiken.apps.report.model.result import CutInterval
from kwiken.apps.report.model.rows import FAILED_MS
from kwiken.apps.report.model.statistics import Floats, cut_with_interval, ladder_of
from kwiken.model.plan.plan import Ladder
from kwiken.tail.autopilot.arms import ArmCounts, upper_ms
from kwiken.tail.autopilot.comparison import OPEN

ARM_WORDS = {NONE: "no plan", RIVAL: "one percentile for all stages", PLAN: "the plan"}


class ComparedArm(msgspec.Struct, frozen=True):
    """Requests of one arm; one that failed counts as 10 s.

    Attributes:
        cut_by_plan: share by which the plan's p99 is below this arm's; None for the plan itself.
        verdict: `better` or `worse` where the plan is so by more than chance, `open` where that is not
            known; None for the plan itself.
    """

    requests: int
    failed: int
    latency: Ladder
    cut_by_plan: CutInterval | None = None
    verdict: str | None = None


class ComparisonResult(msgspec.Struct, frozen=True):
    """Figures of a comparison.

    Attributes:
        spent: extra work of both plans together, as a share of the work of all requests.
        percentile: percentile at which the rival copies, 0 to 100.
        budget: budget of both plans, as a share of all work.
        looks: number of looks at the data; the chance of a wrong verdict over all of them is 5%.
    """

    service: str
    seconds: float
    budget: float
    percentile: float
    spent: float
    looks: int
    arms: dict[str, ComparedArm]


def arms_of(
    seconds: Sequence[Mapping[str, ArmCounts]], looks: ComparisonLooks, *, seed: int
) -> dict[str, ComparedArm]:
    """Figures of each arm.

    Args:
        seconds: requests of each second by arm; whole seconds are drawn for the intervals, because slow
            requests come in bursts.
        seed: seed of the intervals' draws.
    """
    series = {arm: _series([second[arm] for second in seconds]) for arm in (*OTHERS, PLAN)}
    found = {}
    for arm, (_, latencies_ms) in series.items():
        cut = verdict = None
        if arm != PLAN:
            cut = CutInterval(**cut_with_interval(base=series[arm], other=series[PLAN], seed=seed))
            verdict = looks.verdicts[arm].verdict if arm in looks.verdicts else OPEN
        failed = sum(second[arm].failed for second in seconds)
        found[arm] = ComparedArm(len(latencies_ms), failed, ladder_of(latencies_ms), cut, verdict)
    return found


def _series(seconds: Sequence[ArmCounts]) -> tuple[Floats, Floats]:
    """Number of the second and latency in milliseconds of each request, both (n,)."""
    rows = [
        (second, latency_ms, count)
        for second, counts in enumerate(seconds)
        for latency_ms, count in (
            *((upper_ms(cell - 0.5), count) for cell, count in counts.cells.items()),
            (FAILED_MS, counts.failed),
        )
    ]
    times_s, latencies_ms, counts_of_rows = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    times = counts_of_rows.astype(np.int64)
    return np.repeat(times_s, times), np.repeat(latencies_ms, times)
