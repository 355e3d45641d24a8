"""Full servers that jobs share: free cores, pressure of the residents, and where a job fits best."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats
from papers.worlds.cloud.scenarios import CloudJobs
from papers.worlds.cloud.settings import FULL
from papers.worlds.cloud.weather import RESOURCES, SCALE

MAX_SERVERS = 1200
USED = 0.1  # weight of a resource from which on a job minds pressure on it


class Servers:
    """Full servers, each up or down.

    Args:
        up: number of servers that are up at the start; others are added as they are rented.

    Attributes:
        up: (n,) whether the server is there, or ordered.
        free: (n,) number of free cores.
        pressure: (n, 10) pressure of the residents, by their share of the cores, 0 to 99.
        bearable: (n, 10) pressure that every resident tolerates on what it uses, 0 to 99.
    """

    def __init__(self, jobs: CloudJobs, up: int) -> None:
        self._jobs = jobs
        self.up = np.zeros(MAX_SERVERS, dtype=np.bool_)
        self.up[:up] = True
        self.free = np.full(MAX_SERVERS, float(FULL))
        self.pressure: Floats = np.zeros((MAX_SERVERS, RESOURCES))
        self.bearable: Floats = np.full((MAX_SERVERS, RESOURCES), SCALE)
        self._residents: list[set[int]] = [set() for _ in range(MAX_SERVERS)]
        self._minded = np.where(jobs.weights >= USED, jobs.tolerated, SCALE)
        self.count = up

    def add(self) -> int:
        """Add a server; returns its index."""
        place = int(np.flatnonzero(~self.up)[0])
        self.up[place] = True
        self.free[place] = FULL
        self.pressure[place] = 0.0
        self.bearable[place] = SCALE
        self._residents[place].clear()
        self.count = max(self.count, place + 1)
        return place

    def drop(self, place: int) -> None:
        """Give a server back."""
        self.up[place] = False

    def best(self, job: int, cores: float, *, profiles: bool) -> int | None:
        """Server for a job: with profiles that of the least loss to it and the residents; else the emptiest.

        Args:
            cores: number of cores that the job gets.
            profiles: whether the job is known.
        """
        free = self.free[: self.count]
        fits = np.flatnonzero(self.up[: self.count] & (free >= cores))
        if not len(fits):
            return None
        if not profiles:
            return int(fits[np.argmax(free[fits])])
        there = self.pressure[fits]
        loss = np.maximum(0.0, there - self._jobs.tolerated[job]) @ self._jobs.weights[job]
        after = there + self._jobs.caused[job] * (cores / FULL)
        harm = np.maximum(0.0, after - self.bearable[fits]).sum(axis=1)
        return int(fits[np.argmin((loss + harm) / SCALE + 1e-4 * free[fits])])

    def take(self, place: int, job: int, cores: float) -> None:
        """Put a job on a server."""
        self.free[place] -= cores
        self.pressure[place] += self._jobs.caused[job] * (cores / FULL)
        self._residents[place].add(job)
        self.bearable[place] = np.minimum(self.bearable[place], self._minded[job])

    def release(self, place: int, job: int, cores: float) -> None:
        """Take a job from a server."""
        self.free[place] += cores
        self.pressure[place] -= self._jobs.caused[job] * (cores / FULL)
        self._residents[place].discard(job)
        left = list(self._residents[place])
        self.bearable[place] = self._minded[left].min(axis=0) if left else SCALE

    def of_others(self, place: int, job: int, cores: float) -> Floats:
        """(10,) Pressure of the other residents of a server, 0 to 99.

        Args:
            cores: number of cores that the job has.
        """
        others: Floats = np.maximum(0.0, self.pressure[place] - self._jobs.caused[job] * (cores / FULL))
        return others
