"""Site of a run: the true state, the ledger, the jobs and the events to come."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Forecast, SizedReplica, Sizing
from kwiken.allocator.workloads.profile import WorkloadProfile
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster
from papers.worlds.fleet.simulator.outcome import FleetOutcome, PhaseChange
from papers.worlds.fleet.simulator.scenario import Job, Scenario
from papers.worlds.fleet.simulator.state import State


class Truth:
    """A profile taken as exact, on the classes of a cluster.

    Args:
        profile: true behaviour; deviations are not read.

    Attributes:
        tolerated: (s,) pressure that costs 5%, a share, over `SOURCES`.
        caused: (s,) pressure that one replica exerts, a share, over `SOURCES`.

    Raises:
        InputError: names the workload and a class that the profile does not know and that has no speed.
    """

    def __init__(self, profile: WorkloadProfile, cluster: Cluster) -> None:
        self.tolerated = np.maximum(profile.tolerated.mean, 1e-9)
        self.caused = profile.caused.mean
        self._up = {
            (size.cores, size.memory_gb): profile.base * math.exp(log)
            for size, log in zip(profile.sizes, profile.up.mean.tolist(), strict=True)
        }
        self._het = _by_class(profile, cluster)
        self._counts = np.log(profile.replicas)
        self._out = profile.out.mean

    def rate(self, cores: float, memory_gb: float, node_class: int) -> float:
        """Performance of one replica alone, work per second.

        A replica may draw more memory than its size says, where the workload needs more; then the best size
        that the memory covers counts.

        Args:
            cores: number of cores of the replica.
            memory_gb: memory of the replica, in GB.
        """
        key = (cores, memory_gb)
        if key not in self._up:
            self._up[key] = max(
                rate
                for (size_cores, size_gb), rate in self._up.items()
                if size_cores == cores and size_gb <= memory_gb
            )
        return self._up[key] * float(self._het[node_class])

    def efficiency(self, replicas: int) -> float:
        """Share of the sum of their rates that some replicas reach together.

        Args:
            replicas: number of replicas, 0 or more.
        """
        if not replicas:
            return 1.0
        return math.exp(float(np.interp(math.log(replicas), self._counts, self._out))) / replicas


def _by_class(profile: WorkloadProfile, cluster: Cluster) -> Floats:
    known = dict(zip(profile.classes, np.exp(profile.het.mean).tolist(), strict=True))
    factors = []
    for found in cluster.classes:
        factor = known.get(found.name, found.speed)
        if factor is None:
            raise InputError(
                f"its profile does not know the class {found.name!r}; give the class a speed",
                where=f"workload {profile.name!r}",
            )
        factors.append(factor)
    return np.array(factors)


class FleetEvent(IntEnum):
    """Kind of event; events of one moment happen in this order."""

    UP = 0
    DOWN = 1
    STEP = 2
    RESUME = 3
    ACT = 4
    RECLAIM = 5
    ARRIVAL = 6
    LOOK = 7


@dataclass(eq=False)
class JobRun:
    """One job while it is in the cluster or waits for it: what is true of it, and what its manager knows."""

    job: Job
    phase: int = 0
    truth: Truth | None = None
    sizing: Sizing | None = None  # None until it is started
    request: PlacementRequest | None = None
    known_phase: int | None = None  # phase of which the manager knows the behaviour
    again: bool = False  # whether it has measured the job again in that phase
    factor: float = 1.0  # of load
    replicas: dict[SizedReplica, int] = field(default_factory=dict)  # with their number in the true state
    empty: tuple[PlacementRequest, bool, Forecast] | None = (
        None  # what an empty cluster could do for a request
    )
    act_s: float = np.inf  # when the manager will act
    calm_s: float = -np.inf  # until when it will not, while the job gets the same share of its demand
    after_act: float = np.nan  # the share of its demand that the job got when the manager had acted
    change: PhaseChange | None = None  # the last one that is noted
    look_s: float = np.inf  # when it is seen what the job gets after that change


class FleetSite:
    """Events and true state of the cluster, without any rule of a manager.

    Attributes:
        now_s: the present moment, in seconds.
        runs: jobs of the scenario, in its order.
        events: queue of what is to happen, earliest first.
    """

    def __init__(self, scenario: Scenario) -> None:
        cluster, count = scenario.cluster, len(scenario.jobs)
        self.scenario = scenario
        self.ledger = NodeLedger(cluster)
        self.state = State(cluster, count)
        self.runs = [JobRun(job) for job in scenario.jobs]
        self.outcome = FleetOutcome.empty(count, float(cluster.cores.sum()))
        self.events: list[tuple[float, FleetEvent, int, int]] = []
        self._order = itertools.count()
        self.now_s = 0.0

    def later(self, at_s: float, event: FleetEvent, subject: int) -> None:
        """Queue an event.

        Args:
            at_s: its moment, in seconds.
            subject: index of the job or of the node.
        """
        heapq.heappush(self.events, (at_s, event, next(self._order), subject))

    def behave(self, run: JobRun, place: int) -> None:
        """Take the true behaviour of the present phase into the state."""
        phase, state = run.job.phases[run.phase], self.state
        run.truth = truth = Truth(phase.truth, self.scenario.cluster)
        state.tolerated[:, place], state.caused[:, place] = truth.tolerated, truth.caused
        state.demand[place] = phase.reference
        state.remaining[place] = phase.work
        for replica, number in run.replicas.items():
            state.rerate(number, self._rate(run, replica))

    def _rate(self, run: JobRun, replica: SizedReplica) -> float:
        assert run.truth is not None
        assert run.sizing is not None
        request, node_class = run.sizing.request, int(self.ledger.cluster.class_of[replica.node])
        return run.truth.rate(
            float(request.cores[replica.size]), float(request.memory_gb[replica.size]), node_class
        )

    def replaced(self, run: JobRun, place: int) -> set[int]:
        """Bring the true state's replicas in line with the scheduler's; the nodes that changed."""
        there = {} if run.sizing is None else dict.fromkeys(run.sizing.replicas)
        nodes = set()
        self.state.advance(np.array([place]), self.now_s)  # with the replicas that it had until now
        for replica in [one for one in run.replicas if one not in there]:
            cores = replica.draws[0].cores
            nodes.add(self.state.drop(run.replicas.pop(replica), cores))
        for replica in there:
            if replica not in run.replicas:
                rate = self._rate(run, replica)
                cores = replica.draws[0].cores
                run.replicas[replica] = self.state.add(place, replica.node, rate, cores)
                nodes.add(replica.node)
        if run.truth is not None:
            self.state.efficiency[place] = run.truth.efficiency(len(run.replicas))
        return nodes

    def share(self, place: int) -> float:
        """Performance of a job now, as a share of its demand."""
        return float(self.state.performance[place] / self.state.demand[place])

    def restart(self, run: JobRun, place: int) -> None:
        """Begin a job anew that has lost all replicas; what it has done is lost, unless it is a service."""
        self.outcome.restarts[place] += 1
        if not self.state.service[place]:
            self.outcome.wasted += self.state.forget(place)
            run.phase, run.look_s = 0, np.inf
            self.behave(run, place)
