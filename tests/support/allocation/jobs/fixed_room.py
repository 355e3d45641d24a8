"""Room for jobs on fixed nodes: cores alone, each node of one speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwiken.allocator.adaptation.job_room import NodeRoom
from kwiken.runtime.cluster.state.jobs.documents import JobOrder


class FixedRoom:
    """Nodes with a speed, as a share of the fastest one's, and a number of cores each, by name."""

    def __init__(self, nodes: Mapping[str, tuple[float, float]]) -> None:
        self._nodes = dict(nodes)
        self.free = {name: cores for name, (_, cores) in nodes.items()}
        self.held: dict[str, tuple[str, float]] = {}

    def rooms(self) -> list[NodeRoom]:
        return [NodeRoom(name, free, 1.0) for name, free in self.free.items() if free > 0]

    def speed(self, node: str) -> float:
        return self._nodes[node][0]

    def could_hold(self, cores: float, memory_gb: float) -> bool:
        del memory_gb
        return any(has >= cores for _, has in self._nodes.values())

    def suits(self, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> bool:
        del memory_gb, caused
        return self.free.get(node, 0.0) >= cores

    def take(self, job: str, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> None:
        del memory_gb, caused
        assert job not in self.held, "a job draws once"
        taken = min(cores, self.free[node])
        self.free[node] -= taken
        self.held[job] = node, taken

    def release(self, job: str) -> None:
        node, cores = self.held.pop(job)
        self.free[node] += cores


def order(name: str, **fields: Any) -> JobOrder:
    """Order of a job that needs one core."""
    given: dict[str, Any] = {
        "version": 1,
        "name": name,
        "command": ["true"],
        "folder": "/",
        "cores": 1.0,
        "submitted_at": 0.0,
    }
    return JobOrder(**(given | fields))
