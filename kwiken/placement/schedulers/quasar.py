"""Quasar's scheduler: sizes and places jointly, on the nodes ranked best for the workload."""

from __future__ import annotations

from dataclasses import dataclass

from kwiken.placement import Rank, Sizing, by_cost, by_quality, node_scores, walk


@dataclass(frozen=True)
class QuasarScheduler:
    """Greedy joint allocation and assignment (Quasar section 3.7).

    Attributes:
        rank: ranking of the nodes.
        name: name of the scheduler.
    """

    rank: Rank = by_quality
    name: str = "quasar"

    def place(self, sizing: Sizing) -> None:
        """Take the best-ranked nodes until the target is met, then trim."""
        walk(sizing, self.rank)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the target is met as surely as asked."""
        return sizing.forecast().met


@dataclass(frozen=True)
class ThriftyScheduler:
    """Quasar's walk by performance and by performance for cost; the cheaper of the two is kept.

    Attributes:
        name: name of the scheduler.
    """

    name: str = "thrifty"

    def place(self, sizing: Sizing) -> None:
        """Walk twice, and keep what meets the target at the lower cost, or else performs more."""
        kept = len(sizing.replicas)
        scores = node_scores(sizing.request, sizing.ledger)
        walk(sizing, by_quality, scores)
        first, chosen = _worth(sizing), [(one.node, one.size) for one in sizing.replicas[kept:]]
        sizing.clear(kept)
        walk(sizing, by_cost, scores)
        if _worth(sizing) < first:
            sizing.clear(kept)
            for node, size in chosen:
                sizing.add(node, size)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the target is met as surely as asked."""
        return sizing.forecast().met


def _worth(sizing: Sizing) -> tuple[bool, float]:
    found = sizing.forecast()
    return found.met, -sizing.cost if found.met else found.performance
