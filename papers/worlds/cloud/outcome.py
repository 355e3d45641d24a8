"""Outcome of a run of the simulated cloud: performance, times, rented nodes, and costs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kwiken.base.arrays import Bools, Floats

PERCENTILES = (5.0, 25.0, 75.0, 95.0)


@dataclass(eq=False)
class CloudOutcome:
    """Outcome of the jobs of a run.

    Attributes:
        latency: (n,) whether a job is latency-critical.
        performance: (n,) performance as a share of that alone: of batch jobs by their time with all waits, of
            latency-critical ones by their p99.
        wait_s: (n,) time from the arrival to the start, seconds.
        end_s: (n,) end of each job, seconds.
        on_reserved: (n,) whether the job ran on reserved nodes.
        reserved_cores: number of cores that are reserved.
        mean_demand: mean number of cores in flight if every job ran at once.
        rented_core_s: time for which nodes on demand were up, by their cores, in seconds.
        spot_core_s: time for which spot nodes were up, by their cores, in seconds.
        obtained: number of nodes on demand that were ordered.
        at_once: number of nodes on demand that were given back right after a job.
        releases: number of nodes on demand that became idle.
        moved_s: time that jobs lost by moving to another node, seconds.
        limits: moments, soft limits and queue lengths.
        utilisation: moments and shares of the reserved cores that were allocated.
        latency_cores: share of the allocated reserved cores that latency-critical jobs have, with the moment.
        wait_errors: absolute error of the estimated wait in seconds, by cores of the job.
        active: mean number of nodes on demand that are up.
        peak_cores: largest number of cores on demand that were up at once.
    """

    latency: Bools
    performance: Floats
    wait_s: Floats
    end_s: Floats
    on_reserved: Bools
    reserved_cores: float
    mean_demand: float
    rented_core_s: float = 0.0
    spot_core_s: float = 0.0
    obtained: int = 0
    at_once: int = 0
    releases: int = 0
    moved_s: float = 0.0
    limits: list[tuple[float, float, int]] = field(default_factory=list)
    utilisation: list[tuple[float, float]] = field(default_factory=list)
    latency_cores: list[tuple[float, float]] = field(default_factory=list)
    wait_errors: list[tuple[float, float]] = field(default_factory=list)
    active: float = 0.0
    peak_cores: float = 0.0

    @property
    def end_min(self) -> float:
        """Minutes until 99% of the jobs have ended."""
        return float(np.quantile(self.end_s, 0.99)) / 60.0

    @property
    def rented_cores(self) -> float:
        """Mean number of cores on demand, over the time until nearly all jobs have ended."""
        return self.rented_core_s / (60.0 * self.end_min)

    @property
    def spot_cores(self) -> float:
        """Mean number of cores on spot, over the time until nearly all jobs have ended."""
        return self.spot_core_s / (60.0 * self.end_min)

    def mean(self, which: Bools | None = None) -> float:
        """Mean performance of some jobs, a share; of all where none are named.

        Args:
            which: (n,) whether a job counts.
        """
        values = self.performance if which is None else self.performance[which]
        return float(values.mean()) if len(values) else 1.0

    def p95_loss(self) -> float:
        """Loss that 95% of the jobs stay below: time or p99 as a factor of that alone."""
        return float(np.quantile(1.0 / self.performance, 0.95))

    def hourly(self, ratio: float, *, spot: float = 0.35) -> float:
        """Cost of an hour in on-demand cores, the reservations spread over their year.

        Args:
            ratio: price on demand over the reserved one, as a factor.
            spot: cost of a core on spot, as a share of that on demand.
        """
        return self.reserved_cores / ratio + self.rented_cores + spot * self.spot_cores

    def steady_utilisation(self) -> float:
        """Mean share of the reserved cores that are allocated, from minute 20 to 120."""
        kept = [share for at, share in self.utilisation if 1200 <= at <= 7200]  # noqa: PLR2004 - seconds
        return float(np.mean(kept)) if kept else 0.0
