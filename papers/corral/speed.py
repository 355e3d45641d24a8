"""Work of planning and of a decision (Figure 4.3, Section 4.4.3), counted: this package has no clock."""

from __future__ import annotations

from typing import Final

from kwiken.batch.racks.planning import plan_racks
from kwiken.batch.racks.problem import problem_of
from kwiken.batch.racks.response import rack_response_s
from papers.corral.heuristic import gap
from papers.corral.workloads import TESTBED, w1
from papers.figures.rows import FigureRow, Findings, MissingRow, Part, row

JOBS: Final = (50, 100, 200, 500)
RACKS: Final = 100
BENCHMARK: Final = "times are measured by python -m benchmarks racks, since reproductions read no clock"


def looks(jobs: int) -> tuple[float, float, float]:
    """Schedules that provisioning evaluates, those that the source's heuristic evaluates, and the gain."""
    rows = [
        (job.name, job.arrival_s, job.input_bytes, rack_response_s(job, RACKS, TESTBED))
        for job in w1(jobs, 0)
    ]
    found = plan_racks(problem_of(rows), "makespan")
    return float(found.looks), float(jobs * (RACKS - 1) + 1), gap(found, "makespan")


def _rows(results: list[tuple[float, float, float]]) -> Findings:
    rows: list[FigureRow] = []
    for jobs, (own, literal, above) in zip(JOBS, results, strict=True):
        rows += [
            row("Figure 4.3", f"schedules evaluated, {jobs} jobs on {RACKS} racks", own, note=BENCHMARK),
            row("Figure 4.3", f"the same by the source's heuristic, {jobs} jobs", literal, source="JR"),
            row("Figure 4.3", f"gap to LP-Batch, {jobs} jobs, %", round(100 * above, 3), source="3"),
        ]
    missing = (
        MissingRow(
            figure="Figure 4.3",
            metric="time to plan 500 jobs on 100 racks, s",
            source="55",
            reason=BENCHMARK,
        ),
        MissingRow(
            figure="Section 4.4.3",
            metric="time of a decision on 128,000 virtual machines, p50 and p99, ms",
            source="950.17, 983.29",
            reason=BENCHMARK,
        ),
    )
    return Findings(tuple(rows), missing=missing)


def speed() -> Part:
    """Part on the work of planning."""
    return Part("speed", tuple((looks, (jobs,)) for jobs in JOBS), _rows, ("Figure 4.3", "Section 4.4.3"))
