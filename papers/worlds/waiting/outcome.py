"""Outcome of a run of the lined fleet: performance and waiting time of every job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.worlds.waiting.rules import LITTLE, QOS

SEVERE: Final = 0.8


@dataclass(frozen=True, eq=False)
class WaitSample:
    """Chance of a slot that was predicted when a job joined its line, and how long the slot took.

    Attributes:
        within_s: times of the predictions, in seconds.
        predicted: probability of a free slot within each of those times.
        waited_s: time until the pool had a free slot, in seconds; infinite for not before the job left.
    """

    pool: int
    within_s: tuple[float, ...]
    predicted: tuple[float, ...]
    waited_s: float


@dataclass(frozen=True, eq=False)
class LinedOutcome:
    """Results of one run.

    Attributes:
        arrival_s: (j,) times of arrival, in seconds.
        started_s: (j,) times of the first start; NaN for never, in seconds.
        finished_s: (j,) times of the end; NaN for jobs that did not finish, in seconds.
        alone_s: (j,) duration alone on the best platform, in seconds.
        charged_s: (j,) waiting that is charged: since some node had room for the job in order of arrival.
        measuring_s: (j,) time that profiling and classifying took, in seconds.
        late: (j,) whether the budget was spent before a suitable node was free.
        down: (j,) whether the job was diverted to a less demanding line.
        up: (j,) whether it was given a better pool.
        high: (j,) whether it has high priority.
        kills: (j,) how often it was killed for want of memory.
        cores: (j,) number of cores that it reserves.
        series: (t, 4) times in seconds, allocated cores, cores in use, and jobs that wait.
        capacity: number of cores of the cluster.
    """

    arrival_s: Floats
    started_s: Floats
    finished_s: Floats
    alone_s: Floats
    charged_s: Floats
    measuring_s: Floats
    late: Bools
    down: Bools
    up: Bools
    high: Bools
    kills: Ints
    cores: Floats
    series: Floats
    capacity: float
    samples: tuple[WaitSample, ...]
    busy_s: tuple[float, ...]

    def performance(self) -> Floats:
        """(j,) duration alone over execution, charged waiting and measurement; 0 for jobs without an end."""
        whole = self.finished_s - self.started_s + self.charged_s + self.measuring_s
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(np.isfinite(self.finished_s), self.alone_s / whole, 0.0))

    def backlog_gone_s(self) -> float:
        """Time from which on no job waits, in seconds."""
        waits = self.series[:, 3] > 0
        return float(self.series[np.flatnonzero(waits)[-1], 0]) if waits.any() else 0.0

    def mean_used(self) -> float:
        """Share of the cores that were in use, from the first arrival until the last one or the last wait."""
        until_s = max(float(self.arrival_s[-1]), self.backlog_gone_s())
        times_s = np.append(np.minimum(self.series[:, 0], until_s), until_s)
        return float((np.diff(times_s) * self.series[:, 2]).sum() / (until_s * self.capacity))

    def oversubscribed_s(self) -> tuple[float, float]:
        """First and last time at which open jobs require more cores than there are, in seconds."""
        open_jobs = np.isfinite(self.finished_s)
        ends = np.where(open_jobs, self.finished_s, self.arrival_s)
        times_s = np.concatenate((self.arrival_s, ends))
        changes = np.concatenate((self.cores, -self.cores))
        order = np.argsort(times_s, kind="stable")
        over = np.flatnonzero(np.cumsum(changes[order]) > self.capacity)
        return (float(times_s[order][over[0]]), float(times_s[order][over[-1]])) if over.size else (0.0, 0.0)

    def summary(self) -> dict[str, float]:
        """Figures of the run by name, in percent unless the name says else."""
        got = self.performance()
        done = np.isfinite(self.finished_s)
        ran_s = np.where(done, self.finished_s - self.started_s, np.nan)
        first, last = self.oversubscribed_s()
        shares = {
            "work": self.alone_s / ran_s,
            "measuring": self.measuring_s / ran_s,
            "added wait": self.charged_s / ran_s,
            "whole wait": (self.started_s - self.arrival_s - self.measuring_s) / ran_s,
        }
        found = {
            "QoS kept, %": 100 * float((got >= QOS).mean()),
            "QoS kept but for the added wait, %": 100
            * float((self.alone_s / (self.alone_s / np.maximum(got, 1e-9) - self.charged_s) >= QOS).mean()),
            "loss below 10%, %": 100 * float((got >= LITTLE).mean()),
            "loss above 20%, %": 100 * float((got < SEVERE).mean()),
            "mean performance, %": 100 * float(np.minimum(got, 1.0).mean()),
            "cores used, %": 100 * self.mean_used(),
            "backlog gone, s": self.backlog_gone_s(),
            "oversubscribed from, s": first,
            "oversubscribed until, s": last,
            "makespan, s": float(np.nanmax(self.finished_s)),
            "did not finish": float((~done).sum()),
            "kills": float(self.kills.sum()),
            "late, %": 100 * float(self.late.mean()),
            "diverted down, %": 100 * float(self.down.mean()),
            "diverted up, %": 100 * float(self.up.mean()),
        }
        unflagged = done & ~self.late
        budget = (self.charged_s + self.measuring_s) / self.alone_s
        found["largest added wait and measuring of a job that is not late, %"] = 100 * float(
            budget[unflagged].max(initial=0.0)
        )
        for name, values in shares.items():
            for label, some in (("", done), (", diverted down", done & self.down)):
                part = values[some]
                if part.size:
                    found[f"{name}{label}, mean, %"] = 100 * float(part.mean())
                    found[f"{name}{label}, 95th, %"] = 100 * float(np.quantile(part, 0.95))
                    found[f"{name}{label}, largest, %"] = 100 * float(part.max())
        return found
