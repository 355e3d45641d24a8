"""Room for jobs on the nodes of an adaptation: what nodes offer beside replicas, and what jobs take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.adaptation.replicas import Replicas
from kwiken.allocator.placement.node_ledger import Draw, DrawKind
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats


@dataclass(frozen=True)
class NodeRoom:
    """What a node offers to one more job.

    Attributes:
        cores: number of free cores.
        memory_gb: free memory, in units of GB.
    """

    node: str
    cores: float
    memory_gb: float


class JobRoom:
    """Room for jobs; they draw from the same ledger as replicas, and keep what they draw to their end.

    Args:
        replicas: replicas of all workloads, whose ledger jobs draw from.
        speeds: speed of each node as a share of the fastest one's, above 0 and at most 1, by name.
    """

    def __init__(self, replicas: Replicas, speeds: Mapping[str, float]) -> None:
        self._replicas = replicas
        self._speeds = speeds
        self._draws: dict[str, Draw] = {}

    def rooms(self) -> list[NodeRoom]:
        """Room of every node that has a free core or a part of one, in the order of the nodes."""
        ledger = self._replicas.ledger
        found = []
        for index, node in enumerate(ledger.cluster.nodes):
            cores = float(ledger.free_cores[index])
            if cores <= 0 or node.name in self._replicas.blocked_nodes:
                continue
            found.append(NodeRoom(node.name, cores, float(ledger.free_memory_gb[index])))
        return found

    def speed(self, node: str) -> float:
        """Speed of a node as a share of the fastest one's, above 0 and at most 1."""
        return self._speeds[node]

    def could_hold(self, cores: float, memory_gb: float) -> bool:
        """Whether any node, were it empty, had as many cores and as much memory.

        Args:
            cores: number of cores.
            memory_gb: memory, in units of GB.
        """
        cluster = self._replicas.ledger.cluster
        return bool(((cluster.cores >= cores) & (cluster.memory_gb >= memory_gb)).any())

    def suits(self, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> bool:
        """Whether a node has room for a job whose pressure its residents bear.

        Args:
            cores: number of cores.
            memory_gb: memory, in units of GB.
            caused: pressure by source, a share from 0 to 1; a source that is missing gets none.
        """
        ledger = self._replicas.ledger
        index = ledger.cluster.index_of.get(node)
        if index is None or node in self._replicas.blocked_nodes:
            return False
        return ledger.fits(index, cores, memory_gb) and ledger.bears(index, _pressure(caused))

    def take(self, job: str, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> None:
        """Draw for a job; a job that runs already may find less room than it holds, and takes what there is.

        Args:
            job: name that no other job has that draws.
            cores: number of cores.
            memory_gb: memory, in units of GB.
            caused: pressure by source, a share from 0 to 1.
        """
        ledger = self._replicas.ledger
        index = ledger.cluster.index_of[node]
        draw = Draw(
            DrawKind.JOB,
            f"job {job}",
            index,
            min(cores, max(0.0, float(ledger.free_cores[index]))),
            min(memory_gb, float(ledger.free_memory_gb[index])),
            _pressure(caused),
        )
        ledger.take(draw, oversell=True)  # the node may have been sold beyond its cores by use
        self._draws[job] = draw

    def release(self, job: str) -> None:
        """Give back what a job drew."""
        draw = self._draws.pop(job)
        ledger = self._replicas.ledger
        ledger.release(draw)
        node = ledger.cluster.nodes[draw.node].name
        if node in self._replicas.blocked_nodes:
            self._replicas.block(node)  # what became free stays blocked

    @property
    def nodes(self) -> set[str]:
        """Nodes on which jobs draw."""
        return {self._replicas.ledger.cluster.nodes[draw.node].name for draw in self._draws.values()}


def _pressure(caused: Mapping[str, float]) -> Floats:
    return np.array([caused.get(source, 0.0) for source in SOURCES])
