"""Arrivals and departures answered by several agents on one state.

Agents decide in groups: each agent of a group reads the same state and proposes, then the proposals are
committed in random order. A proposal that lost its node to another one is drawn again, until it is committed
or no node can take it. So the answers are those of schedulers that run at once, and a run with one seed is
repeatable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING, Draw
from kwiken.allocator.sampling.agent import PlacingAgent, SampledKind, qualities, with_room
from kwiken.allocator.sampling.shared_nodes import NodeProposal, SharedNodes


@dataclass(frozen=True, slots=True)
class PlacedArrival:
    """Answer to one arrival.

    Attributes:
        job: name of the job, as it arrived.
        node: index of the node; None if no node can take the job.
        redraws: number of times that another agent was faster.
        again: whether the job stood already, so that this is the earlier answer.
    """

    job: str
    node: int | None
    redraws: int = 0
    again: bool = False


class ArrivalPlacer:
    """Agents that place what arrives.

    Args:
        state: state that all agents share.
        draws: number of nodes that are examined for each job.
        agents: number of agents, 1 or more.
        seed: seed of the draws; every agent has a generator of its own.
    """

    def __init__(self, state: SharedNodes, draws: int, agents: int, seed: int) -> None:
        self._state = state
        self._order, *own = np.random.default_rng(seed).spawn(agents + 1)
        self._agents = [PlacingAgent(state, draws, rng) for rng in own]

    def place(self, jobs: Sequence[tuple[str, SampledKind]]) -> list[PlacedArrival]:
        """Place jobs that arrive together, at most one for each agent.

        Args:
            jobs: name and kind of each job; a name that stands already is answered with its node.
        """
        proposals: dict[int, NodeProposal | None] = {}
        answers: dict[int, PlacedArrival] = {}
        first: dict[str, int] = {}
        for place, (job, kind) in enumerate(jobs):
            if first.setdefault(job, place) == place and self._state.draw_of(job) is None:
                proposals[place] = self._agents[place].propose(job, kind)
        order = list(proposals)
        if len(order) > 1:
            self._order.shuffle(order)
        for place in order:
            answers[place] = self._committed(place, jobs[place], proposals[place])
        for place, (job, _) in enumerate(jobs):
            if place not in answers:
                draw = self._state.draw_of(job)
                answers[place] = PlacedArrival(job, None if draw is None else draw.node, again=True)
        return [answers[place] for place in range(len(jobs))]

    def _committed(
        self, agent: int, wanted: tuple[str, SampledKind], proposal: NodeProposal | None
    ) -> PlacedArrival:
        """Commit a proposal, drawing again as often as another agent was faster."""
        job, kind = wanted
        redraws = 0
        while proposal is not None and not self._state.commit(proposal):
            redraws += 1
            proposal = self._agents[agent].propose(job, kind)
        return PlacedArrival(job, None if proposal is None else proposal.draw.node, redraws)


def rank_among_all(kind: SampledKind, state: SharedNodes, draw: Draw) -> float:
    """Share of the other nodes with room that are not better than a chosen one, from 0 to 1.

    The job must not stand on the node.

    Args:
        draw: what the job takes from the chosen node.
    """
    nodes = with_room(kind, state.ledger, np.arange(len(state.versions)))
    found = qualities(kind, state.ledger, nodes)
    own = float(found[nodes == draw.node][0])
    others = len(nodes) - 1
    if not others:
        return 1.0
    return float((found <= own + ROUNDING).sum() - 1) / others


def restore(state: SharedNodes, kinds: Mapping[str, SampledKind], job: str, workload: str, node: int) -> bool:
    """Put back a job that was placed before; returns whether the node has room for it.

    Args:
        workload: name of its kind.
    """
    kind = kinds[workload]
    if not state.ledger.fits(node, kind.cores, kind.memory_gb) or state.draw_of(job) is not None:
        return False
    draw = kind.draw(job, node, state.ledger.cluster)
    return state.commit(NodeProposal(job, draw, int(state.versions[node])))
