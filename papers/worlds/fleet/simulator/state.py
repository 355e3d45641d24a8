"""True state of a simulated cluster, as arrays over replicas, nodes and workloads.

Schedulers see predictions and the ledger. The state holds what is really so: the pressure that residents
exert, the performance that each workload gets, and what it has done so far.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from kwiken.allocator.placement.quality import contention_loss
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.model.nodes.nodes import Cluster

MIN_SPEED: Final = 0.1  # share of its performance alone that contention leaves a replica at least
QOS: Final = 0.95  # share of the reference from which quality of service counts as kept
FIRST_REPLICAS: Final = 1024  # room for replicas at first; doubled when full


class State:
    """Replicas on nodes, and the performance of workloads, each updated when a neighbour comes or goes.

    Every array over workloads has one entry for each job of the scenario. `settle` makes performance agree
    with the replicas; all integrals run up to the last change of their workload.

    Attributes:
        performance: (j,) work per second now.
        demand: (j,) performance that counts as 1 now, work per second.
        remaining: (j,) work until the phase ends; infinite for services.
        finish_s: (j,) time at which the phase or the service ends at the present performance, in seconds.
        cores: (j,) number of cores of all replicas.
        used: (j,) number of cores that work; a service whose capacity exceeds its load uses a part.
        active_s: (j,) seconds since the first start.
        served: (j,) integral of performance over demand, at most 1 for services, in seconds.
        kept_s: (j,) seconds with at least 95% of the demand.
        alone_s: (j,) integral of what the performance would be without contention, over demand, in seconds.
        full_s: (j,) integral of performance over demand, also above 1, in seconds.
        spent: (j,) core-seconds of work since the last start from nothing.
    """

    def __init__(self, cluster: Cluster, jobs: int) -> None:
        sources = len(SOURCES)
        self.performance: Floats = np.zeros(jobs)
        self.demand: Floats = np.ones(jobs)
        self.remaining: Floats = np.full(jobs, np.inf)
        self.finish_s: Floats = np.full(jobs, np.inf)
        self.cores: Floats = np.zeros(jobs)
        self.used: Floats = np.zeros(jobs)
        # One array, because one sum over some of its columns is faster than six sums.
        self._integrals: Floats = np.zeros((6, jobs))
        self.active_s, self.served, self.kept_s, self.alone_s, self.full_s, self.spent = self._integrals
        self.running: Bools = np.zeros(jobs, dtype=np.bool_)  # has been started, and is not done
        self.paused: Bools = np.zeros(jobs, dtype=np.bool_)  # is being moved
        self.service: Bools = np.zeros(jobs, dtype=np.bool_)
        self.efficiency: Floats = np.ones(jobs)
        self.tolerated: Floats = np.ones((sources, jobs))
        self.caused: Floats = np.zeros((sources, jobs))
        self.total_cores = 0.0  # of all replicas
        self.total_used = 0.0
        self._alone: Floats = np.zeros(jobs)  # sum over replicas of their performance alone
        self._speed: Floats = np.zeros(jobs)  # the same with contention
        self._since_s: Floats = np.zeros(jobs)
        self._on_node: list[list[int]] = [[] for _ in cluster.nodes]
        self._job: Ints = np.zeros(FIRST_REPLICAS, dtype=np.int64)
        self._node: Ints = np.zeros(FIRST_REPLICAS, dtype=np.int64)
        self._rate: Floats = np.zeros(FIRST_REPLICAS)  # alone, by replica
        self._now: Floats = np.zeros(FIRST_REPLICAS)  # with contention, by replica
        self._free = list(range(FIRST_REPLICAS - 1, -1, -1))

    def start(self, job: int, now_s: float) -> None:
        """Count a job as active from a moment on; a job that was started before stays active.

        Args:
            now_s: the moment, in seconds.
        """
        if not self.running[job]:
            self.running[job] = True
            self._since_s[job] = now_s

    def forget(self, job: int) -> float:
        """Drop what a job has done, because it begins anew; returns the core-seconds that are lost."""
        lost = float(self.spent[job])
        for done in (self.spent, self.served, self.full_s, self.alone_s):
            done[job] = 0.0
        return lost

    def add(self, job: int, node: int, rate: float, cores: float) -> int:
        """Put a replica on a node; returns its number. `settle` must follow.

        Args:
            rate: performance of the replica alone, work per second.
            cores: number of cores.
        """
        if not self._free:
            self._grow()
        replica = self._free.pop()
        self._job[replica], self._node[replica], self._rate[replica] = job, node, rate
        self._now[replica] = 0.0
        self._on_node[node].append(replica)
        self._alone[job] += rate
        self.cores[job] += cores
        self.total_cores += cores
        return replica

    def drop(self, replica: int, cores: float) -> int:
        """Take a replica from its node; returns the node's index. `settle` must follow.

        Args:
            cores: number of cores that it had.
        """
        job, node = int(self._job[replica]), int(self._node[replica])
        self._on_node[node].remove(replica)
        self._alone[job] -= self._rate[replica]
        self._speed[job] -= self._now[replica]
        self.cores[job] -= cores
        self.total_cores -= cores
        self._free.append(replica)
        return node

    def rerate(self, replica: int, rate: float) -> None:
        """Give a replica another performance alone, because its workload behaves differently now.

        Args:
            rate: performance alone, work per second.
        """
        self._alone[self._job[replica]] += rate - self._rate[replica]
        self._rate[replica] = rate

    def advance(self, jobs: Ints, now_s: float) -> None:
        """Integrate workloads up to a moment, at the performance that they had.

        Args:
            jobs: (k,) indices of jobs, each once.
            now_s: the moment, in seconds.
        """
        passed = np.where(self.running[jobs], now_s - self._since_s[jobs], 0.0)
        self._since_s[jobs] = now_s
        performance, demand = self.performance[jobs], self.demand[jobs]
        share = performance / demand
        grown = np.empty((len(self._integrals), len(jobs)))
        grown[0] = passed
        grown[1] = passed * np.where(self.service[jobs], np.minimum(share, 1.0), share)
        grown[2] = passed * (share >= QOS)
        grown[3] = passed * self._alone[jobs] * self.efficiency[jobs] / demand
        grown[4] = passed * share
        grown[5] = passed * self.used[jobs]
        self._integrals[:, jobs] += grown
        self.remaining[jobs] -= passed * performance

    def settle(self, nodes: Iterable[int], jobs: Iterable[int], now_s: float) -> Ints:
        """Bring performance up to date after replicas came, went or changed.

        Args:
            nodes: indices of nodes on which anything changed.
            jobs: indices of jobs that changed in any other way.
            now_s: the moment, in seconds.

        Returns:
            (k,) indices of the jobs whose performance may have changed, in ascending order.
        """
        numbers = [number for node in set(nodes) for number in self._on_node[node]]
        replicas = np.array(numbers, dtype=np.int64)
        owners = self._job[replicas]
        touched = np.array(sorted({*owners.tolist(), *jobs}), dtype=np.int64)
        self.advance(touched, now_s)
        if len(replicas):
            loss = self._loss(replicas, owners)
            speed = self._rate[replicas] * np.maximum(1.0 - loss, MIN_SPEED)
            np.add.at(self._speed, owners, speed - self._now[replicas])
            self._now[replicas] = speed
        self._perform(touched, now_s)
        return touched

    def _loss(self, replicas: Ints, owners: Ints) -> Floats:
        """(r,) share of performance that each replica loses to the others on its node."""
        nodes, caused = self._node[replicas], self.caused[:, owners]
        if (nodes == nodes[0]).all():  # most often; a running sum adds in the same order as `add.at`
            total = np.add.accumulate(caused, axis=1)[:, -1:]
        else:
            where, place = np.unique(nodes, return_inverse=True)
            by_node = np.zeros((len(caused), len(where)))
            np.add.at(by_node.T, place, caused.T)
            total = by_node[:, place]
        # Replicas of one workload are one another's neighbours too, so only its own pressure is left out.
        return np.asarray(
            contention_loss(np.maximum(total - caused, 0.0), self.tolerated[:, owners]).max(axis=0)
        )

    def _perform(self, jobs: Ints, now_s: float) -> None:
        active = self.running[jobs] & ~self.paused[jobs]
        performance = np.where(active, self._speed[jobs] * self.efficiency[jobs], 0.0)
        # A difference of sums is not exactly 0 when the last replica has gone.
        performance[self.cores[jobs] <= 0] = 0.0
        self.performance[jobs] = performance
        with np.errstate(divide="ignore", invalid="ignore"):
            busy = np.where(self.service[jobs], np.minimum(self.demand[jobs] / performance, 1.0), 1.0)
            used = np.where(performance > 0, busy * self.cores[jobs], 0.0)
            left = np.maximum(self.remaining[jobs], 0.0) / performance
        self.total_used += float((used - self.used[jobs]).sum())
        self.used[jobs] = used
        batch = ~self.service[jobs]
        self.finish_s[jobs[batch]] = np.where(performance > 0, now_s + left, np.inf)[batch]

    def _grow(self) -> None:
        size = len(self._job)
        self._job, self._node = (np.concatenate((one, np.zeros_like(one))) for one in (self._job, self._node))
        self._rate, self._now = (np.concatenate((one, np.zeros_like(one))) for one in (self._rate, self._now))
        self._free = list(range(2 * size - 1, size - 1, -1))
