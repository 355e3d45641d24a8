"""Resource units: single cores of servers, the pressure of neighbours on each, and which are free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.worlds.quality import MAX_SCORE
from papers.worlds.tasks.kinds import LOSS_AT_LIMIT, RESOURCES, TaskKind

MIN_PERFORMANCE = 0.05  # share of performance that is left at least by one resource


class UnitCluster:
    """Servers divided into units of one core.

    The pressure on a unit is the mean over the other units of its server, free ones counted as 0.

    Args:
        units: number of units of each server.
        platforms: number of each server's platform.

    Attributes:
        free: numbers of the free units, in no order.
    """

    def __init__(self, units: Sequence[int], platforms: Sequence[int]) -> None:
        self.units = list(units)
        self.platforms = list(platforms)
        self.platform_array: Ints = np.array(self.platforms, dtype=np.int64)
        self.server_of = [server for server, count in enumerate(units) for _ in range(count)]
        self.neighbours = [max(count - 1, 1) for count in units]
        self.first_of = np.concatenate(([0], np.cumsum(units)[:-1])).tolist()  # unit of each server
        self.free = list(range(len(self.server_of)))
        self._place = list(range(len(self.server_of)))  # of each unit in `free`; -1 for busy ones
        self.free_on = list(units)
        self.sums = [[0] * RESOURCES for _ in units]  # pressure that all units of a server cause

    def __len__(self) -> int:
        """Number of units."""
        return len(self.server_of)

    def is_free(self, unit: int) -> bool:
        """Whether nothing runs on a unit."""
        return self._place[unit] >= 0

    def take(self, unit: int, kind: TaskKind) -> None:
        """Start a task on a free unit."""
        place, last = self._place[unit], self.free.pop()
        if last != unit:
            self.free[place] = last
            self._place[last] = place
        self._place[unit] = -1
        server = self.server_of[unit]
        self.free_on[server] -= 1
        self.sums[server] = [one + other for one, other in zip(self.sums[server], kind.caused, strict=True)]

    def release(self, unit: int, kind: TaskKind) -> None:
        """End the task of a unit."""
        self._place[unit] = len(self.free)
        self.free.append(unit)
        server = self.server_of[unit]
        self.free_on[server] += 1
        self.sums[server] = [one - other for one, other in zip(self.sums[server], kind.caused, strict=True)]

    def digits(self, server: int, kind: TaskKind) -> tuple[int, ...]:
        """Pressure on a free unit of a server, as integers in the order of a kind."""
        sums, count = self.sums[server], self.neighbours[server]
        half = count // 2
        return tuple([(sums[resource] + half) // count for resource in kind.order])

    def performance(self, server: int, kind: TaskKind, *, own: bool = False) -> float:
        """True performance of a task on a server, as a factor of that alone on the best platform.

        Args:
            own: whether the task is among the server's already, so that its own pressure is no neighbour's.
        """
        sums, scale = self.sums[server], 1.0 / (self.neighbours[server] * MAX_SCORE)
        found = kind.platform[self.platforms[server]]
        for total, limit, caused in zip(sums, kind.limits, kind.caused, strict=True):
            pressure = ((total - caused) if own else total) * scale
            if pressure <= limit:
                ratio = pressure / limit
                found *= 1.0 - LOSS_AT_LIMIT * ratio * ratio
            else:
                found *= max(1.0 - LOSS_AT_LIMIT - (pressure - limit), MIN_PERFORMANCE)
        return found

    def performances(self, kind: TaskKind) -> Floats:
        """(s,) true performance of a task on a free unit of each server."""
        return np.asarray(self._kept(kind).prod(axis=1) * np.array(kind.platform)[self.platform_array])

    def predicted(self, kind: TaskKind) -> Floats:
        """(s,) performance that a scheduler predicts, which takes the largest loss alone."""
        return np.asarray(self._kept(kind).min(axis=1) * np.array(kind.platform)[self.platform_array])

    def _kept(self, kind: TaskKind) -> Floats:
        """(s, n) share of performance that is left by each resource."""
        pressure = np.array(self.sums, dtype=np.float64)
        pressure /= np.array(self.neighbours, dtype=np.float64)[:, None] * MAX_SCORE
        limits = np.array(kind.limits)
        lost = LOSS_AT_LIMIT * np.minimum(pressure / limits, 1.0) ** 2 + np.maximum(pressure - limits, 0.0)
        return np.asarray(np.maximum(1.0 - lost, MIN_PERFORMANCE))

    def predicted_on(self, server: int, kind: TaskKind) -> float:
        """The same of one server."""
        scale = 1.0 / (self.neighbours[server] * MAX_SCORE)
        ratio, excess = 0.0, 0.0
        for total, limit in zip(self.sums[server], kind.limits, strict=True):
            pressure = total * scale
            ratio = max(ratio, pressure / limit)
            excess = max(excess, pressure - limit)
        lost = LOSS_AT_LIMIT * min(ratio, 1.0) ** 2 + excess
        return kind.platform[self.platforms[server]] * max(1.0 - lost, MIN_PERFORMANCE)

    def has_free(self) -> Bools:
        """(s,) whether a server has a free unit."""
        return np.array(self.free_on) > 0
