"""Shared state of several agents: nodes with versions, and commits that compare them.

This is optimistic concurrency: an agent reads nodes and their versions, chooses, and asks to commit. The
commit succeeds if the node has still the version that was read; then the node's version rises. So of two
agents that chose one node on the same reading one wins, and the other draws again. A commit is atomic: an
agent that dies before it has changed nothing, and one that dies after it is answered by what the state holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.placement.node_ledger import Draw, NodeLedger
from kwiken.base.arrays import Ints
from kwiken.model.nodes.nodes import Cluster


@dataclass(frozen=True, slots=True)
class NodeProposal:
    """Commit that an agent proposes.

    Attributes:
        job: unique name of the replica that is placed.
        draw: what it takes from its node.
        version: version of the node when it was read.
    """

    job: str
    draw: Draw
    version: int


class SharedNodes:
    """The one state that all agents commit to.

    Args:
        cluster: nodes; all of them start empty.

    Attributes:
        ledger: what is drawn from each node; agents read it and never write.
        versions: (n,) number of commits of each node.
        releases: number of jobs that were given back.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.ledger = NodeLedger(cluster)
        self.versions: Ints = np.zeros(len(cluster.nodes), dtype=np.int64)
        self.releases = 0
        self._draws: dict[str, Draw] = {}

    def commit(self, proposal: NodeProposal) -> bool:
        """Take what a proposal draws; returns false if its node has changed since it was read.

        A job that stands already is not placed twice: its proposal fails.
        """
        draw = proposal.draw
        if self.versions[draw.node] != proposal.version or proposal.job in self._draws:
            return False
        self.ledger.take(draw)
        self.versions[draw.node] += 1
        self._draws[proposal.job] = draw
        return True

    def release(self, job: str) -> Draw | None:
        """Give back what a job draws; None if there is no such job."""
        draw = self._draws.pop(job, None)
        if draw is not None:
            self.ledger.release(draw)
            self.versions[draw.node] += 1
            self.releases += 1
        return draw

    def draw_of(self, job: str) -> Draw | None:
        """What a job draws; None if there is no such job."""
        return self._draws.get(job)

    def __len__(self) -> int:
        """Number of jobs that stand."""
        return len(self._draws)
