"""Ledger of nodes: free cores, free memory and pressure, from which all work on the nodes draws."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats, Ints
from kwiken.model.nodes.nodes import Cluster

ROUNDING: Final = 1e-9  # cores, GB or pressure by which sums of floats may be off


class DrawKind(StrEnum):
    """Kind of work that draws from a node.

    Attributes:
        REPLICA: a replica of a workload.
        REISSUES: copies of calls that its replica is expected to serve, as extra load.
        CATCH_UP: threads that its replica adds for late requests.
        JOB: a job that runs once and ends.
    """

    REPLICA = "replica"
    REISSUES = "reissues"
    CATCH_UP = "catch-up"
    JOB = "job"


# A struct, because schedulers make and drop many while they compare placements.
class Draw(msgspec.Struct, frozen=True, eq=False):
    """What one piece of work takes from one node.

    Attributes:
        cores: number of cores.
        memory_gb: memory, in units of GB.
        caused: (s,) pressure that the work exerts, a share from 0 to 1, over `SOURCES`.
        tolerated: (s,) pressure that the work may be exposed to, a share from 0 to 1; None where nothing is
            promised.
    """

    kind: DrawKind
    owner: str
    node: int
    cores: float
    memory_gb: float
    caused: Floats
    tolerated: Floats | None = None


class NodeLedger:
    """State of all nodes, as arrays (Paragon section 3.7, with the tolerance that residents have left).

    Args:
        cluster: nodes; all of them start empty.

    Attributes:
        free_cores: (n,) number of cores that are not drawn; negative on a node that is sold beyond its cores.
        free_memory_gb: (n,) memory that is not drawn, in units of GB.
        pressure: (s, n) sum of the pressure that residents exert, over `SOURCES`, in shares.
        slack: (s, n) additional pressure that every resident with a promise can bear, in shares; infinite
            where no resident has one. Negative where a promise is broken.
        changes: number of draws that were taken and released.
        last_change: (n,) number of the last one on each node, from 1; 0 for none.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        shape = (len(SOURCES), len(cluster.nodes))
        self.free_cores: Floats = cluster.cores.copy()
        self.free_memory_gb: Floats = cluster.memory_gb.copy()
        self.pressure: Floats = np.zeros(shape)
        self.slack: Floats = np.full(shape, np.inf)
        # The least of tolerated + caused over residents with a promise: what the sum of all pressure, their
        # own included, may come to. Kept so that taking is a constant number of operations.
        self._bearable: Floats = np.full(shape, np.inf)
        self._residents: list[list[Draw]] = [[] for _ in cluster.nodes]
        self.changes = 0
        self.last_change: Ints = np.zeros(len(cluster.nodes), dtype=np.int64)

    def residents(self, node: int) -> tuple[Draw, ...]:
        """Draws on a node, oldest first."""
        return tuple(self._residents[node])

    def fits(self, node: int, cores: float, memory_gb: float) -> bool:
        """Whether a node has this much room.

        Args:
            cores: number of cores.
            memory_gb: memory, in units of GB.
        """
        return bool(
            self.free_cores[node] >= cores - ROUNDING and self.free_memory_gb[node] >= memory_gb - ROUNDING
        )

    def bears(self, node: int, caused: Floats, by: Draw | None = None) -> bool:
        """Whether the residents of a node can bear additional pressure.

        Args:
            caused: (s,) additional pressure, a share, over `SOURCES`.
            by: resident that exerts it, which bears itself; None for a newcomer.
        """
        borne = (self.slack[:, node] >= caused - ROUNDING) | (caused <= 0)
        if by is not None and by.tolerated is not None and not borne.all():
            limits = np.full(len(SOURCES), np.inf)
            for one in self._residents[node]:
                if one is not by and one.tolerated is not None:
                    np.minimum(limits, one.tolerated + one.caused, out=limits)
            borne = (limits - self.pressure[:, node] >= caused - ROUNDING) | (caused <= 0)
        return bool(borne.all())

    def bearable(self, node: int) -> list[float]:
        """Sum of pressure that every resident of a node with a promise can bear, a share, by source."""
        found: list[float] = self._bearable[:, node].tolist()
        return found

    def occupy(self, node: int, cores: float) -> None:
        """Take cores of a node for what is no workload here, whatever stands there already.

        Args:
            cores: number of cores, 0 or more.
        """
        nothing = np.zeros_like(self.pressure[:, node])
        self.take(Draw(DrawKind.JOB, "others", node, cores, 0.0, nothing), oversell=True)

    def take(self, draw: Draw, *, oversell: bool = False) -> None:
        """Draw from a node; the caller has checked that the node has room.

        Args:
            oversell: whether the node may be sold beyond its cores, for work that uses less than it draws.
        """
        node = draw.node
        cores = -math.inf if oversell else draw.cores
        assert self.fits(node, cores, draw.memory_gb), f"no room for {draw.owner}"
        self._residents[node].append(draw)
        self._count(node)
        self.free_cores[node] -= draw.cores
        self.free_memory_gb[node] -= draw.memory_gb
        pressure, bearable = self.pressure[:, node], self._bearable[:, node]
        pressure += draw.caused
        if draw.tolerated is not None:
            np.minimum(bearable, draw.tolerated + draw.caused, out=bearable)
        np.subtract(bearable, pressure, out=self.slack[:, node])

    def release(self, draw: Draw) -> None:
        """Give back what was drawn. The node's sums are built anew, so no rounding error piles up."""
        node = draw.node
        self._residents[node].remove(draw)
        self._count(node)
        if not self._residents[node]:
            self.free_cores[node], self.free_memory_gb[node] = (
                self.cluster.cores[node],
                self.cluster.memory_gb[node],
            )
            self.pressure[:, node] = 0.0
            self._bearable[:, node] = self.slack[:, node] = np.inf
            return
        free_cores, free_memory_gb = float(self.cluster.cores[node]), float(self.cluster.memory_gb[node])
        pressure, bearable = np.zeros(len(SOURCES)), np.full(len(SOURCES), np.inf)
        for resident in self._residents[node]:
            free_cores -= resident.cores
            free_memory_gb -= resident.memory_gb
            pressure += resident.caused
            if resident.tolerated is not None:
                np.minimum(bearable, resident.tolerated + resident.caused, out=bearable)
        self.free_cores[node], self.free_memory_gb[node] = free_cores, free_memory_gb
        self.pressure[:, node], self._bearable[:, node] = pressure, bearable
        np.subtract(bearable, pressure, out=self.slack[:, node])

    def _count(self, node: int) -> None:
        """Count a change of a node."""
        self.changes += 1
        self.last_change[node] = self.changes
