"""Managers that are compared in a crowded world: scheduler, knowledge, and reaction to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import SOURCE_CAUTION, Caution
from kwiken.allocator.placement.order import Scheduler
from kwiken.allocator.placement.sizing import Sizing
from kwiken.base.arrays import Floats
from papers.worlds.crowded.knowledge import Insight
from papers.worlds.schedulers.names import scheduler

Use = Callable[[], Floats]  # (n,) observed use of each node, a share


@dataclass(frozen=True, eq=False)
class RandomScheduler:
    """A random node with room."""

    rng: np.random.Generator
    name: str = "random"

    def place(self, sizing: Sizing) -> None:
        """Place one replica on any node that has room."""
        nodes = _with_room(sizing)
        if nodes.any():
            sizing.add(int(self.rng.choice(np.flatnonzero(nodes))), 0)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the replica was placed."""
        return bool(sizing.replicas)


@dataclass(frozen=True, eq=False)
class LeastUsedScheduler:
    """The node with room of which the least is in use, as observed: the larger of processor and memory.

    Attributes:
        use: function that gives the last observation of every node, (n,) shares.
    """

    use: Use
    name: str = "least-used"

    def place(self, sizing: Sizing) -> None:
        """Place one replica on the node with the least use, and of equal ones on that with most room."""
        nodes = np.flatnonzero(_with_room(sizing))
        if nodes.size:
            order = np.lexsort((-sizing.ledger.free_cores[nodes], self.use()[nodes]))
            sizing.add(int(nodes[order[0]]), 0)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the replica was placed."""
        return bool(sizing.replicas)


def _with_room(sizing: Sizing) -> Floats:
    request, ledger = sizing.request, sizing.ledger
    room = ledger.free_cores >= float(request.cores[0]) - 1e-9
    return np.asarray(room & (ledger.free_memory_gb >= float(request.memory_gb[0]) - 1e-9))


@dataclass(frozen=True)
class CrowdedManager:
    """A manager by its parts.

    Attributes:
        scheduler: name of a scheduler of the allocator, or `random`, or `least-used`.
        insight: how programs are measured; None for a manager that measures none.
        follows: whether it acts on deviations after placement.
    """

    scheduler: str
    insight: Insight | None = None
    follows: bool = False
    caution: Caution = SOURCE_CAUTION

    def built(self, rng: np.random.Generator, seed: int, use: Use) -> Scheduler:
        """The scheduler of one run."""
        if self.scheduler == "random":
            return RandomScheduler(rng)
        if self.scheduler == "least-used":
            return LeastUsedScheduler(use)
        return scheduler(self.scheduler, seed=seed)


_PLACED: Final = {
    "all known": CrowdedManager("paragon", Insight.EXACT),
    "paragon": CrowdedManager("paragon", Insight.RANDOM),
    "chosen entries": CrowdedManager("paragon", Insight.CHOSEN),
    "margin": CrowdedManager("paragon-margin", Insight.RANDOM),
    "chosen entries, margin": CrowdedManager("paragon-margin", Insight.CHOSEN),
    "best predicted": CrowdedManager("quasar", Insight.CHOSEN),
    "interference only": CrowdedManager("interference-only", Insight.RANDOM),
    "heterogeneity only": CrowdedManager("heterogeneity-only", Insight.RANDOM),
    "least loaded": CrowdedManager("least-loaded"),
    "least used": CrowdedManager("least-used"),
    "random": CrowdedManager("random"),
}
FOLLOWING: Final = ", following"
# Every manager by placement alone, and with the same rules after it.
CROWDED_MANAGERS: Final[Mapping[str, CrowdedManager]] = MappingProxyType(
    _PLACED
    | {
        f"{name}{FOLLOWING}": CrowdedManager(one.scheduler, one.insight, follows=True, caution=one.caution)
        for name, one in _PLACED.items()
    }
)
