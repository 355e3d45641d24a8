"""Chapter 5 of the source: what can be computed without its machines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kwiken.allocator.contention.ramp import QOS, Ramp, RampWindow, Scores
from kwiken.base.arrays import Floats
from papers.figures.bounds import Bound
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    RequiredRow,
    RowKind,
    percent,
    row,
    unreproduced,
)
from papers.ibench.scenario import CHOICES, performance
from papers.paragon.tables import TABLE_3_2, sensitivities

LINES: Final = 8 * 2**20 // 64  # of the source's last-level cache
LEVELS: Final = np.linspace(0.0, 1.0, 21)
WORKLOADS: Final = 50  # simulated for each seed
WINDOW_MS: Final = 200.0  # of `kwiken probe stage`
GAIN: Final = Bound(10.0, 25.0)  # of performance in scenario 1, percent, by the specification
SIMULATED: Final = "simulated machine with 1% noise, fixed by the specification and not adjusted"
SCENARIO: Final = (
    "synthetic applications of one core each; scores and the slowdown are fixed and not adjusted, while the "
    "source measured programs of several kinds on real machines"
)
GOLDEN: Final = 0.618  # step of the permutation, as a share of the lines
PLACED_ONCE: Final = (
    "the scenario places once and has no time; `python -m papers.worlds` plays placement over time"
)
FRAMEWORKS: Final = "needs Hadoop or memcached over all machines as the primary work"
MACHINE: Final = "needs the source's machine with hardware counters"
SIMULATOR: Final = "needs a simulator of processors with unequal cores"

REQUIRED: Final = (
    RequiredRow("R1", "Section 5.4", "pressure from a line, permutation"),
    RequiredRow(
        "R2",
        "Section 5.4",
        "intensity and work lost by pairs of kernels",
        "small, at high load only",
        "`kwiken probe machine` measures every pair on the machine that it runs on",
    ),
    RequiredRow("R3", "Chapter 5, scheduling", "performance over least loaded, least mismatch, mean"),
    RequiredRow("R4", "Chapter 5, scheduling", "gain of utilisation, scenario 1, %", "42", PLACED_ONCE),
    RequiredRow(
        "R5", "Chapter 5, scheduling", "gain of utilisation, scenarios 2, 3, %", "35.6, 27.1", FRAMEWORKS
    ),
    RequiredRow("R6", "Chapter 5, scheduling", "makespan and number of machines", "both shrink", PLACED_ONCE),
    RequiredRow(
        "R7", "Chapter 5, provisioning", "contention of memcached before and after", "clearly lower", MACHINE
    ),
    RequiredRow(
        "R8", "Chapter 5, development", "run time and footprint after three rounds, %", "-35 and -49", MACHINE
    ),
    RequiredRow("R9", "Chapter 5, unequal cores", "loss of most mixes", "marginal", SIMULATOR),
    RequiredRow("R10", "Section 5.4", "time of a ramp"),
    RequiredRow("R11, mean", "Chapter 3, scores", "mean error, points"),
    RequiredRow("R11, below 30", "Chapter 3, scores", "mean error below 30"),
    RequiredRow("R11, below 60", "Chapter 3, scores", "mean error below 60"),
    RequiredRow("R11, above 60", "Chapter 3, scores", "mean error above 60"),
    RequiredRow(
        "R11, by source",
        "Chapter 3, scores",
        "worst and best source, %",
        "instruction cache 15.8, cache 7.8; network 1.8, disk 0.9",
        "all synthetic sources of contention are measured with the same noise",
    ),
)
CAPACITY = 1.0  # of every resource


@dataclass(frozen=True)
class SimulatedResource:
    """One shared resource and a workload on it (iBench, section 3).

    Attributes:
        demand: share of the resource that the workload uses, 0 to 1.
        headroom: total use up to which the workload does not slow down.
        sensitivity: slowdown for each unit of use beyond that; 0 for a workload that does not care.
        noise: standard deviation of each measurement, relative.
    """

    demand: float
    headroom: float
    sensitivity: float
    noise: float = 0.01

    def performance(self, level: float) -> float:
        """Performance of the workload beside a kernel, relative to an idle machine; without noise."""
        return 1 / (1 + self.sensitivity * max(0.0, self.demand + level - self.headroom))

    def kernel_speed(self, level: float, *, beside: bool) -> float:
        """Speed of the kernel, relative to an idle machine; resources are shared in proportion to demand."""
        return min(1.0, CAPACITY / (level + (self.demand if beside else 0.0))) if level > 0 else 1.0

    @property
    def tolerated(self) -> float:
        """Level that costs the workload 5% of its performance, at most 1."""
        if not self.sensitivity:
            return 1.0
        alone = 1 / self.performance(0.0)
        over = (alone / QOS - 1) / self.sensitivity
        return float(np.clip(self.headroom - self.demand + over, 0.0, 1.0))

    @property
    def caused(self) -> float:
        """1 less the level at which the workload costs the kernel 5% of its speed, at least 0."""
        return float(np.clip(1 - (CAPACITY / QOS - self.demand), 0.0, 1.0))


def simulate_ramp(resource: SimulatedResource, ramp: Ramp, rng: np.random.Generator) -> tuple[Scores, int]:
    """Run a ramp on the simulated machine.

    Returns:
        The scores and the number of windows.
    """
    windows = 0
    while (step := ramp.next) is not None:
        windows += 1
        scale = np.exp(rng.normal(0.0, resource.noise, 2))
        both = step.window is RampWindow.BOTH
        performance = resource.performance(step.level) * float(scale[0])
        speed = resource.kernel_speed(step.level, beside=both) * float(scale[1])
        ramp.record(
            None if step.window is RampWindow.KERNEL else performance,
            None if step.window is RampWindow.WORKLOAD else speed,
        )
    return ramp.scores, windows


def draws_needed(lines: int, level: float) -> float:
    """Draws with replacement that cover a share of the lines in the mean.

    Args:
        level: share to cover, from 0 to below 1.
    """
    return -lines * math.log1p(-level)


def covered_by_draws(lines: int, draws: int, rng: np.random.Generator) -> int:
    """Distinct lines after draws with replacement."""
    return len(np.unique(rng.integers(0, lines, draws)))


def covered_by_permutation(lines: int, accesses: int) -> int:
    """Distinct lines after accesses that step through a permutation of all lines."""
    step = int(lines * GOLDEN) + 1
    while math.gcd(step, lines) != 1:
        step += 1
    return len(np.unique(np.arange(accesses, dtype=np.int64) * step % lines))


def worst_residual(levels: Floats, covered: Floats) -> float:
    """Largest distance of coverage from the fitted line, as a share of all lines.

    Args:
        levels: (n,) levels.
        covered: (n,) share that is covered at each.
    """
    slope, offset = np.polyfit(levels, covered, 1)
    return float(np.abs(covered - offset - slope * levels).max())


def coverage(seed: int) -> dict[str, list[float]]:
    """Share of the cache that is covered at each level, with as many accesses as the level asks for."""
    rng = np.random.default_rng([seed, 1])
    accesses = [round(LINES * level) for level in LEVELS.tolist()]
    return {
        "draws with replacement": [covered_by_draws(LINES, count, rng) / LINES for count in accesses],
        "permutation": [covered_by_permutation(LINES, count) / LINES for count in accesses],
    }


def _conclude_coverage(results: list[dict[str, list[float]]]) -> Findings:
    first = results[0]
    rows = [
        row(
            "Section 5.4",
            f"pressure from a line, {name}, % of the cache",
            percent(worst_residual(LEVELS, np.array(first[name]))),
            source="near-linear",
            kind=RowKind.EXACT,
        )
        for name in first
    ]
    rows += [
        row(
            "Section 5.3",
            f"draws that cover {level:.0%} of 131,072 lines, as a multiple of the linear count",
            round(draws_needed(LINES, level) / (LINES * level), 2),
            source="",
            note="a permutation needs 1.00: the kernels step through one",
            kind=RowKind.EXACT,
        )
        for level in (0.08, 0.5, 0.9, 0.99)
    ]
    series = tuple(PlotSeries(name, LEVELS.tolist(), shares) for name, shares in first.items())
    plot = Plot("Section 5.4", "Lines covered by level", "level", "share of lines", series)
    return Findings(tuple(rows), (plot,))


def knees(seed: int) -> list[tuple[float, float, int]]:
    """Errors of tolerated and caused scores, and windows, for workloads on the simulated machine."""
    rng = np.random.default_rng([seed, 2])
    found = []
    for _ in range(WORKLOADS):
        demand, headroom = rng.uniform(0.0, 0.8), rng.uniform(0.3, 1.2)
        resource = SimulatedResource(demand, max(demand, headroom), rng.uniform(0.5, 3.0))
        scores, windows = simulate_ramp(resource, Ramp(), rng)
        missed = abs(scores.tolerated - resource.tolerated), abs(scores.caused - resource.caused)
        found.append((*missed, windows))
    return found


def _conclude_knees(results: list[list[tuple[float, float, int]]]) -> Findings:
    tolerated, caused, windows = np.array([each for result in results for each in result]).T
    return Findings(
        (
            row(
                "Section 5.4",
                "mean error of a tolerated score, points of 100",
                percent(float(tolerated.mean())),
                note=SIMULATED,
            ),
            row(
                "Section 5.4",
                "mean error of a caused score, points of 100",
                percent(float(caused.mean())),
                note=SIMULATED,
            ),
            row(
                "Section 5.4",
                "time of a ramp, mean, ms",
                round(float(windows.mean()) * WINDOW_MS, 0),
                source="at most 10",
                note="windows of 200 ms: 10 ms hold too few calls of a service to see a loss of 5%, and some "
                "resources cannot be filled in it",
            ),
        )
    )


def scheduled(seed: int) -> dict[str, float]:
    """Mean performance of scenario 1 by choice of a machine."""
    return {name: float(performance(seed, name).mean()) for name in CHOICES}


def _conclude_scheduled(results: list[dict[str, float]]) -> Findings:
    rows: list[FigureRow] = []
    for name in list(CHOICES)[1:]:
        gains = np.array([result[name] / result["least loaded"] - 1 for result in results])
        for what, value, source in (
            ("mean", float(gains.mean()), "15.7"),
            ("highest of the seeds", float(gains.max()), "up to 25"),
        ):
            rows.append(
                row(
                    "Chapter 5, scheduling",
                    f"performance over least loaded, {name}, {what}, %",
                    percent(value),
                    source=source if name == "least mismatch" else "",
                    bound=GAIN if name == "least mismatch" else None,
                    note=SCENARIO,
                )
            )
    return Findings(tuple(rows))


def _conclude_scores(results: list[dict[str, float]]) -> Findings:
    """Errors of completed scores, which the source measures in the chapter on Paragon."""
    note = "two random entries of ten, completed; synthetic matrices with 2% noise and two traits"
    return Findings(
        tuple(
            row(
                "Chapter 3, scores",
                metric,
                round(float(np.mean([result[metric] for result in results])), 2),
                source=source,
                note=note,
            )
            for metric, source in TABLE_3_2.items()
            if metric.startswith("mean error")
        )
    )


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic populations to average over.
    """
    parts: list[tuple[str, Any, Any, tuple[str, ...]]] = [
        ("coverage", coverage, _conclude_coverage, ("Section 5.3", "Section 5.4")),
        ("knees", knees, _conclude_knees, ("Section 5.4",)),
        ("scenario 1", scheduled, _conclude_scheduled, ("Chapter 5, scheduling",)),
        ("scores", sensitivities, _conclude_scores, ("Chapter 3, scores",)),
    ]
    computed = (
        Part(name, tuple((job, (seed,)) for seed in range(seeds)), conclude, figures)
        for name, job, conclude, figures in parts
    )
    return (*computed, unreproduced(REQUIRED))
