"""Repacking of running clusters: measures what replicas use, and tells gateways which nodes get no copies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from kwiken.allocator.adaptation.actions import Action
from kwiken.allocator.adaptation.live_repacking import LiveRepacking
from kwiken.allocator.packing.auto_dial import ALLOWANCE, LateCount
from kwiken.runtime.cluster.layout import EmulatedNode
from kwiken.upkeep.assignment import Assignment, Keys
from kwiken.upkeep.readings import Readings

MIN_WINDOW_S: Final = (
    0.5  # shorter times say nothing of use, which the system counts in hundredths of a second
)
MISSED_BURN: Final = (
    2.0  # burn rate of a window in which a stage misses its target, where the service has none
)


class CopyControl(Protocol):
    """Cluster whose gateways can be told where to send no copies."""

    def withhold_copies(self, nodes: Collection[str]) -> None:
        """Let the gateways send no copies of calls to replicas on some nodes."""

    def note_action(self, line: str) -> None:
        """Show an action where the service's state is shown."""


class ProcessUse(Protocol):
    """Meter of the processor time of processes on emulated nodes."""

    def used_s(self, name: str) -> float | None:
        """Processor time that a process has used so far, seconds; None if it is unknown."""


class NodeRepacker:
    """Measures for a repacking, and carries its decisions to the gateways; moves are the upkeep's.

    Args:
        repacking: what decides, from the use of each window, which replicas move.
        keys: function that returns key, node and cores of each replica, by workload.
        nodes: nodes by name, whose speeds turn processor time into cores of the node.
        use: processor time of the processes.
        clusters: clusters by the name of their service.
        targets_ms: largest p99 latency of each service, and of its stages by workload, milliseconds.
        say: told what is decided, as one line.
    """

    def __init__(
        self,
        repacking: LiveRepacking,
        *,
        keys: Callable[[], Keys],
        nodes: Mapping[str, EmulatedNode],
        assignment: Assignment,
        use: ProcessUse,
        clusters: Mapping[str, CopyControl],
        targets_ms: Mapping[str, tuple[float | None, Mapping[str, float]]],
        say: Callable[[str], None],
    ) -> None:
        self._repacking = repacking
        self._keys = keys
        self._nodes = nodes
        self._assignment = assignment
        self._use = use
        self._clusters = clusters
        self._targets_ms = targets_ms
        self._say = say
        self._readings = Readings()
        self._used: dict[str, tuple[float, float]] = {}  # moment and processor time, by name of the process

    def window(self, now_s: float, figures: Mapping[str, Mapping[str, Any]]) -> list[Action]:
        """Take account of a window; returns the moves to carry out now.

        Args:
            now_s: moment on a monotonic clock, seconds.
            figures: status of the gateways, by service; a service whose gateways tell nothing is left out.
        """
        crowded = self._repacking.crowded
        late = {name: count for name, one in figures.items() if (count := self._late(name, one)) is not None}
        lines = self._repacking.observe(now_s, self._cores(now_s), late)
        if self._repacking.crowded != crowded:
            for cluster in self._clusters.values():
                cluster.withhold_copies(self._repacking.crowded)
        actions, decided = self._repacking.step(now_s)
        for line in [*lines, *decided]:
            self._say(line)
            for cluster in self._clusters.values():
                cluster.note_action(line)
        return actions

    def _late(self, service: str, figures: Mapping[str, Any]) -> LateCount | None:
        """Requests of a window, and the late ones; None without a target.

        Where only stages have targets, a window above one of them counts as burning at twice the allowance.
        """
        target_ms, stages_ms = self._targets_ms.get(service, (None, {}))
        if target_ms is not None:
            return self._readings.late_since(service, figures, target_ms)
        if not stages_ms:
            return None
        missed = False
        for name, stage_ms in stages_ms.items():
            recent = figures["stages"][self._assignment.workloads[name].stage]["recent"]
            missed |= recent["p99_ms"] is not None and recent["p99_ms"] > stage_ms
        requests = figures["recent"]["answered"]
        return LateCount(requests, MISSED_BURN * ALLOWANCE * requests if missed else 0.0)

    def _cores(self, now_s: float) -> dict[str, float]:
        """Number of cores of its node that each replica has used since the last window, by its key."""
        found: dict[str, float] = {}
        used: dict[str, tuple[float, float]] = {}
        for workload, replicas in self._keys().items():
            for key, node, _ in replicas:
                name = self._process_of(workload, key)
                total_s = self._use.used_s(name) if name else None
                if total_s is None:
                    continue
                used[name] = now_s, total_s
                before_s, before_used_s = self._used.get(name, (now_s, total_s))
                if now_s - before_s >= MIN_WINDOW_S and total_s >= before_used_s:  # it was not started anew
                    found[key] = (total_s - before_used_s) / (now_s - before_s) / self._nodes[node].speed
        self._used = used
        return found

    def _process_of(self, workload: str, key: str) -> str:
        """Name of a replica's process among the limits; empty if it has none."""
        service = self._assignment.workloads[workload].service
        if not self._assignment.workloads[workload].stage:
            return key
        name = self._assignment.names.get(key)
        return f"{service}/{name}" if name is not None else ""
