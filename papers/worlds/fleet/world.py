"""World: a scenario with what is true of its workloads, and what managers can know of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.allocator.workloads.profile import Size, WorkloadProfile
from kwiken.model.nodes.nodes import Cluster
from papers.worlds.fleet.behaviour import ENTRIES, Behaviour, Knowledge, predicted
from papers.worlds.fleet.generators import (
    MAX_NEED_QUANTILE,
    contention_scores,
    platform_response,
    replica_rows,
    size_rows,
)
from papers.worlds.fleet.platforms import Platform
from papers.worlds.fleet.simulator.scenario import Outage, Scenario

MAX_OF_ONE: Final = 32  # replicas of one workload
SPREAD_OF_DURATIONS: Final = 0.5  # standard deviation of the logarithm of a duration


@dataclass(frozen=True, eq=False)
class World:
    """A scenario with what is true, and what managers can know.

    Attributes:
        truth: true behaviour, a row for each application.
        rows: by job and phase: row of the application in `truth`.
    """

    scenario: Scenario
    truth: Behaviour
    known: Behaviour
    rows: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[Size, ...], ...]
    seed: int
    _cache: dict[tuple[Knowledge, int], tuple[tuple[WorkloadProfile, ...], ...]] = field(default_factory=dict)

    def profiles(
        self, knowledge: Knowledge, entries: int = ENTRIES
    ) -> tuple[tuple[WorkloadProfile, ...], ...]:
        """By job and phase: what a manager predicts.

        Args:
            entries: number of measurements that it predicts from, for each matrix.
        """
        key = knowledge, entries
        if key not in self._cache:
            more = [entries] if entries > ENTRIES else []
            rng = np.random.default_rng([self.seed, *knowledge.value.encode(), *more])
            behaviour = predicted(self.truth, self.known, knowledge, rng, entries)
            classes = tuple(found.name for found in self.scenario.cluster.classes)
            self._cache[key] = tuple(
                tuple(
                    behaviour.profile(row, job.workload.name, phase.truth.measure, sizes, classes)
                    for row, phase in zip(rows, job.phases, strict=True)
                )
                for rows, sizes, job in zip(self.rows, self.sizes, self.scenario.jobs, strict=True)
            )
        return self._cache[key]


def behaviour_of(
    rng: np.random.Generator,
    count: int,
    platforms: tuple[Platform, ...],
    *,
    one_size: bool,
    most_needed: float = MAX_NEED_QUANTILE,
) -> Behaviour:
    """True behaviour of workloads, drawn by the generators.

    Args:
        one_size: whether each workload has one size and one replica.
        most_needed: quantile of what platforms offer up to which needs are drawn, a share.
    """
    response = platform_response(rng, count, platforms, most_needed)
    tolerated, caused = contention_scores(rng, count)
    replicas = np.arange(1, (1 if one_size else MAX_OF_ONE) + 1)
    return Behaviour(
        base=np.ones(count),
        up=np.zeros((count, 1)) if one_size else size_rows(rng, count, 0.0),
        replicas=replicas,
        out=np.zeros((count, 1)) if one_size else replica_rows(rng, count, 0.0)[:, : len(replicas)],
        het=np.log(response),
        tolerated=tolerated,
        caused=caused,
        deviations={},
    )


def random_outages(
    rng: np.random.Generator, cluster: Cluster, count: int, until_s: float
) -> tuple[Outage, ...]:
    """Failures for good of random nodes, each in the middle half of a period.

    Args:
        until_s: end of the period, in seconds.
    """
    nodes = rng.choice(len(cluster.nodes), count, replace=False)
    times_s = rng.uniform(0.25, 0.75, count) * until_s
    return tuple(Outage(int(node), float(at_s)) for node, at_s in zip(nodes, times_s, strict=True))
