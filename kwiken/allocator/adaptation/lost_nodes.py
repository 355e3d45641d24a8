"""Lost nodes: where their replicas go, who is served first, and what happens once a node is back."""

from __future__ import annotations

from collections.abc import Sequence

from kwiken.allocator.adaptation.actions import Action
from kwiken.allocator.adaptation.measures import Measures
from kwiken.allocator.adaptation.replicas import Replicas


class LostNodes:
    """Nodes that are not used because they were lost.

    Args:
        replicas: replicas of all workloads, which are changed.
        measures: how a workload gets what it needs.
    """

    def __init__(self, replicas: Replicas, measures: Measures) -> None:
        self._replicas = replicas
        self._measures = measures

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return self._replicas.blocked_nodes

    def lose(self, nodes: Sequence[str]) -> tuple[list[Action], list[str]]:
        """Place the replicas of lost nodes elsewhere; nothing is placed on a lost node until it is back.

        Workloads with targets are served first, by falling priority: each gets what it needs, be it by larger
        replicas where others stand, by new replicas, or in place of best-effort work. Best-effort work that
        stood on the nodes is started again where there is room left.

        Args:
            nodes: names of nodes that were lost together, so that none of them is taken for another one.

        Returns:
            Actions, in order; and the workloads with targets that have lost replicas.
        """
        gone = self._removed(nodes)
        for node in nodes:
            self._replicas.block(node)
        if not gone:
            return [], []
        reason = f"node {nodes[0]} was lost" if len(nodes) == 1 else f"nodes {', '.join(nodes)} were lost"
        targeted = [name for name in gone if not self._replicas.is_best_effort(name)]
        actions: list[Action] = []
        for name in targeted:
            actions += self._measures.fit(name, reason, tell_again=True)
        return actions + self._measures.fill(reason), targeted

    def back(self, node: str) -> list[Action]:
        """Use a node again: for workloads that are short, and for best-effort work.

        Args:
            node: name of the node; nothing happens unless it was lost.
        """
        if node not in self.names:
            return []
        self._replicas.unblock(node)
        reason = f"node {node} is back"
        actions: list[Action] = []
        for name in self._replicas.sizings:
            actions += self._measures.fit(name, reason)  # nothing for best-effort work, which needs nothing
        return actions + self._measures.fill(reason)

    def _removed(self, nodes: Sequence[str]) -> list[str]:
        """Remove the replicas that stand on nodes; returns the workloads that they were of."""
        lost = {self._replicas.ledger.cluster.index_of[node] for node in nodes}
        touched = []
        for name, sizing in self._replicas.sizings.items():
            for place in reversed(range(len(sizing.replicas))):
                if sizing.replicas[place].node in lost:
                    self._replicas.remove(name, place)
                    touched.append(name)
        return list(dict.fromkeys(touched))
