"""Request for placement: one workload and its predictions, as arrays over sizes and node classes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import LOSS_AT_TOLERANCE, Caution
from kwiken.allocator.placement.node_ledger import ROUNDING, Draw, DrawKind
from kwiken.allocator.workloads.completion.tails import NORMAL_TAILS, ErrorTails
from kwiken.allocator.workloads.latency_limit import UNKNOWN_VARIATION, spare_within
from kwiken.allocator.workloads.pressure import MIN_TOLERATED, pressure_by_size, tolerance_by_size
from kwiken.allocator.workloads.profile import WorkloadProfile
from kwiken.allocator.workloads.workload import Measure, Workload
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster

DEVIATION_BY_SPEED: Final = 0.25  # log units: of a class that only its `speed` tells about
REL_ROUNDING: Final = 1e-9  # of performance
FAR: Final = 1e-6  # share of performance that no rounding of sums reaches
# Factor of the capacity that quick replicas need for a rate and a latency. A replica with which more is
# needed is too slow: its calls leave too little time to wait.
MAX_NEEDED: Final = 1.15
MIN_SHARE: Final = 1e-6  # of its rate, for a replica that is too slow for the latency


@dataclass(frozen=True, eq=False, kw_only=True)
class PlacementRequest:
    """One workload as schedulers see it (Quasar section 3.5).

    Alone on its nodes, n replicas perform `efficiency[n - 1]` times the sum of their `rate[size, class]`.
    Contention scores have moved by the caution's confidence already: less is tolerated and more is caused
    than predicted.

    Attributes:
        required: performance that meets its target, per second, a rate; 0 for best-effort work.
        cores: (k,) number of cores of a replica by size, in order of rising performance.
        memory_gb: (k,) memory of a replica by size, in units of GB.
        base: performance of a replica of the reference size on the reference class, work per second.
        class_factor: (c,) performance by class of the cluster, as a factor of the reference class.
        capacity: (k, c) performance of one replica alone that is never idle, by size and class of the
            cluster, work per second.
        rate: (k, c) the part of it that may be in use while calls keep the latency of the target, work per
            second; equal to the capacity where performance was measured at the latency, or no latency is
            promised.
        cost: (k, c) cost of one replica in an hour, by size and class.
        efficiency: (m,) share of the sum of rates that n = 1 ... m replicas reach together.
        base_deviation: standard deviation of the log of all rates together, in log units.
        size_deviation: (k,) the same of a size alone, in log units.
        class_deviation: (c,) the same of a class alone, in log units.
        count_deviation: (m,) the same of the efficiency of n replicas, in log units.
        tolerated: (s,) pressure that costs a replica of the reference size 5%, a share, over `SOURCES`.
        caused: (s,) pressure that it exerts on the reference class, a share, over `SOURCES`.
        pressure: (s, k, c) pressure that a replica exerts at its `rate`, by size and class of the cluster, as
            shares of what a node of the class has.
        spare: capacity of all replicas together that stays idle at `required` so that calls keep the latency
            of the target, work per second; infinite where no replica keeps the latency at any rate.
        corrections: by size, number of replicas and class: what to add to the log of a replica's performance,
            where it was measured to depart from the product.
        shares: extra work of each replica by kind, as shares of its own.
        reserved: number of replicas of the only size that its user reserves; None where nobody reserves, and
            schedulers that take reservations derive one from the target.
    """

    workload: Workload
    required: float
    caution: Caution
    cores: Floats
    memory_gb: Floats
    base: float
    class_factor: Floats
    capacity: Floats
    rate: Floats
    cost: Floats
    efficiency: Floats
    base_deviation: float
    size_deviation: Floats
    class_deviation: Floats
    count_deviation: Floats
    tolerated: Floats
    caused: Floats
    pressure: Floats
    spare: float
    corrections: Mapping[tuple[int, int, int], float] = field(default_factory=dict)
    shares: Mapping[DrawKind, float] = field(default_factory=dict)
    reserved: int | None = None

    @property
    def name(self) -> str:
        """Name of the workload."""
        return self.workload.name

    @cached_property
    def least(self) -> float:
        """Performance below which the target is missed, up to rounding, whatever the headroom, per second."""
        return self.required * (1 - REL_ROUNDING)

    @cached_property
    def least_sure(self) -> float:
        """Performance below which no replicas meet the target as surely as asked, up to rounding, per second.

        Sizes, classes and numbers of replicas add their deviations to that of all rates together.
        """
        return self.least * (1.0 + self.caution.headroom(self.base_deviation)) * (1 - REL_ROUNDING)

    @cached_property
    def least_rounded(self) -> float:
        """`least_sure` less what rounding may cost a sum from which rates were subtracted, per second."""
        return (1.0 - FAR) * self.least_sure

    @cached_property
    def keeps_latency(self) -> bool:
        """Whether some replica keeps the latency of the target at any rate at all."""
        return math.isfinite(self.spare)

    def at_load(self, required: float) -> PlacementRequest:
        """The same workload at another rate, which needs the same spare capacity.

        Args:
            required: performance that meets the target, work per second, above 0.
        """
        if not self.spare or not self.keeps_latency:
            return replace(self, required=required)
        share = _share(required, self.spare) / _share(self.required, self.spare)
        return replace(self, required=required, rate=self.rate * share, pressure=self.pressure * share)

    @cached_property
    def rates(self) -> list[list[float]]:
        """`rate` as plain numbers, which are faster one at a time, work per second."""
        rows: list[list[float]] = self.rate.tolist()
        return rows

    @cached_property
    def sure_rate(self) -> Floats:
        """(k, c) `rate` without the headroom that replicas of one size and class need, work per second.

        The number of replicas is supposed to have the median deviation.
        """
        common = self.base_deviation**2 + median(self.count_deviations) ** 2
        own = common + self.size_deviation**2 + self.class_deviation[:, None] ** 2
        sure = np.array([1.0 + self.caution.headroom(math.sqrt(value)) for value in own.ravel().tolist()])
        return np.asarray(self.rate / sure.reshape(own.shape).T)

    @cached_property
    def costs(self) -> list[list[float]]:
        """`cost` as plain numbers, per hour."""
        rows: list[list[float]] = self.cost.tolist()
        return rows

    @cached_property
    def size_deviations(self) -> list[float]:
        """`size_deviation` as plain numbers, in log units."""
        return [float(value) for value in self.size_deviation]

    @cached_property
    def class_deviations(self) -> list[float]:
        """`class_deviation` as plain numbers, in log units."""
        return [float(value) for value in self.class_deviation]

    @cached_property
    def typical_size(self) -> int:
        """Index of the size that performs most for its cost, by the median over the classes.

        Of the sizes with which an allowed number of replicas meets the target, if there are any.
        """
        worth = self._typical_rate / self.cost.mean(axis=1)
        enough = self._typical_rate * self._most_together >= self.least
        return int(np.argmax(worth * enough if enough.any() else worth))

    @cached_property
    def typical_count(self) -> int | None:
        """Number of replicas of the typical size that meet the target, by the median over the classes.

        None where no number that is allowed does.
        """
        reached = self._together * self._typical_rate[self.typical_size]
        enough = np.flatnonzero(reached >= self.least)
        return int(enough[0]) + 1 if enough.size else None

    @cached_property
    def _together(self) -> Floats:
        """(m,) performance of n = 1 ... m replicas together, as a factor of one."""
        return self.efficiency * np.arange(1, len(self.efficiency) + 1)

    @cached_property
    def _most_together(self) -> float:
        """Performance of as many replicas as perform most together, as a factor of one."""
        return float(self._together.max())

    @cached_property
    def _typical_rate(self) -> Floats:
        """(k,) median over the classes of `rate` by size, work per second."""
        return np.asarray(np.median(self.rate, axis=1))

    @cached_property
    def efficiencies(self) -> list[float]:
        """`efficiency` as plain numbers, in shares."""
        return [float(value) for value in self.efficiency]

    @cached_property
    def count_deviations(self) -> list[float]:
        """`count_deviation` as plain numbers, in log units."""
        return [float(value) for value in self.count_deviation]

    @cached_property
    def _by_cost(self) -> list[tuple[list[int], list[float]]]:
        """By class: indices of the sizes, the cheapest first, and their costs in that order."""
        found = []
        for cost in self.cost.T:
            order = np.argsort(cost, kind="stable")
            found.append((order.tolist(), cost[order].tolist()))
        return found

    @cached_property
    def _savings(self) -> list[list[list[int | None]]]:
        """By class and size: see `savings`."""
        return [
            [[None, *order[: bisect_left(costs, cost)]] for cost in self.cost[:, node_class].tolist()]
            for node_class, (order, costs) in enumerate(self._by_cost)
        ]

    def savings(self, size: int, node_class: int) -> list[int | None]:
        """What costs less than a size on a class: None for no replica; then cheaper sizes, cheapest first."""
        return self._savings[node_class][size]

    @cached_property
    def nested(self) -> bool:
        """Whether each size draws at least as many cores and as much memory as the one before."""
        return bool(np.all(np.diff(self.cores) >= 0) and np.all(np.diff(self.memory_gb) >= 0))

    @cached_property
    def work(self) -> float:
        """Work of a replica with its extra work, as a factor of its own, 1 or more."""
        return 1.0 + math.fsum(self.shares.values())

    @cached_property
    def all_cores(self) -> Floats:
        """(k,) number of cores that a replica draws by size, with its extra work."""
        return self.cores * self.work

    @cached_property
    def all_pressure(self) -> Floats:
        """(s, k, c) pressure of a replica with its extra copies, in shares, as `pressure`."""
        return self.pressure * (1.0 + self.shares.get(DrawKind.REISSUES, 0.0))

    def pressure_on(self, node: int, size: int, cluster: Cluster) -> Floats:
        """(s,) pressure of a replica with its extra copies on one node, in shares."""
        return self.all_pressure[:, size, cluster.class_numbers[node]]

    @cached_property
    def tolerance(self) -> Floats:
        """(s, k, c) pressure of others that costs a replica 5%, in shares, by size and class."""
        return tolerance_by_size(self.tolerated, self.caused, self.pressure)

    @cached_property
    def borne(self) -> Floats:
        """(s, k, c) pressure of others that costs a replica what is bought against it, or 5%, in shares.

        Beyond what is tolerated, the loss grows by the excess; see `contention_loss`.
        """
        return self.tolerance + (self.caution.most_loss - LOSS_AT_TOLERANCE)

    @cached_property
    def per_tolerance(self) -> Floats:
        """(s, k, c) inverse of `tolerance`."""
        return 1.0 / self.tolerance

    @cached_property
    def pressed(self) -> list[int]:
        """Positions in `SOURCES` of those that its replicas press on."""
        return np.flatnonzero(self.caused > 0).tolist()

    def draws(self, node: int, size: int, node_class: int) -> tuple[Draw, ...]:
        """What one replica takes from a node's ledger, itself first.

        Args:
            node_class: index of the node's class.
        """
        guaranteed = not self.workload.best_effort
        cores, memory_gb = float(self.cores[size]), float(self.memory_gb[size])
        caused = self.pressure[:, size, node_class]
        tolerated = self.borne[:, size, node_class] if guaranteed else None
        own = Draw(DrawKind.REPLICA, self.name, node, cores, memory_gb, caused, tolerated)
        extra = (
            Draw(
                kind,
                self.name,
                node,
                cores * share,
                0.0,
                # Threads of catch-up are short; their pressure is not known, and their cores are kept free.
                caused * (share if kind is DrawKind.REISSUES else 0.0),
            )
            for kind, share in self.shares.items()
            if share > 0
        )
        return own, *extra


def request_for(
    workload: Workload,
    profile: WorkloadProfile,
    cluster: Cluster,
    caution: Caution,
    shares: Mapping[DrawKind, float] | None = None,
) -> PlacementRequest:
    """Compose a profile's predictions for the classes of a cluster.

    A replica draws the larger of a size's memory and the memory that the workload needs. Sizes that draw as
    much as another one and perform no better are left out, and sizes that fit on no class of the cluster.

    Args:
        cluster: nodes that it may be placed on.
        shares: extra work of each replica by kind, as shares of its own, each 0 or more.

    Raises:
        InputError: names the workload: its target and its profile are in different units, or nothing is known
            about a class of nodes.
    """
    where = f"workload {workload.name!r}"
    target = workload.target
    if target is not None and not target.judged_by(profile.measure):
        raise InputError(
            f"its target is in {target.measure.value} and its profile in {profile.measure.value}", where=where
        )
    memory_gb = np.array([max(size.memory_gb, workload.memory_gb) for size in profile.sizes])
    cores = np.array([size.cores for size in profile.sizes])
    het, class_deviation = _by_class(profile, cluster, where)
    rate = capacity = profile.base * np.exp(profile.up.mean[:, None] + het[None, :])
    spare, used, kept = 0.0, 1.0, np.zeros(len(cores))
    if profile.measure is Measure.CAPACITY and target is not None and target.p99_ms is not None:
        variation = UNKNOWN_VARIATION if profile.work_variation is None else profile.work_variation
        servers = np.maximum(1.0, np.floor(cores))[:, None]
        spare, rate = _within(servers / capacity, capacity, target.required, target.p99_ms, variation)
        used = _share(target.required, spare) if math.isfinite(spare) else 1.0
        # More cores that are slower each may serve more calls, and yet keep the latency at a lower rate.
        kept = np.median(rate, axis=1)
    order = np.lexsort((memory_gb, cores, profile.up.mean, kept))
    order = order[_useful(cores[order], memory_gb[order])]
    order = order[_on_some_class(cluster, cores[order], memory_gb[order])]
    counts = np.arange(1, min(workload.max_replicas, int(profile.replicas[-1])) + 1)
    if len(counts) < workload.min_nodes:
        raise InputError(
            f"its profile knows up to {len(counts)} replicas, and min_nodes is {workload.min_nodes}",
            where=where,
        )
    known = np.log(profile.replicas)
    efficiency = np.exp(np.interp(np.log(counts), known, profile.out.mean)) / counts
    lowered = profile.tolerated.tails.deviations_at(caution.confidence) * profile.tolerated.deviation
    raised = profile.caused.tails.deviations_at(caution.confidence) * profile.caused.deviation
    tolerated = np.clip(profile.tolerated.mean - lowered, MIN_TOLERATED, 1.0)
    caused = np.clip(profile.caused.mean + raised, 0.0, 1.0)
    return PlacementRequest(
        workload=workload,
        required=0.0 if target is None else target.required,
        caution=replace(caution, tails=_widest(profile, caution.confidence)),
        cores=cores[order],
        memory_gb=memory_gb[order],
        base=profile.base,
        class_factor=np.exp(het),
        capacity=capacity[order],
        rate=rate[order],
        cost=_costs(cluster, cores[order], memory_gb[order]),
        efficiency=efficiency,
        base_deviation=profile.base_deviation,
        size_deviation=profile.up.deviation[order],
        class_deviation=class_deviation,
        count_deviation=np.interp(np.log(counts), known, profile.out.deviation),
        tolerated=tolerated,
        caused=caused,
        pressure=pressure_by_size(
            caused, used * np.exp(profile.up.mean[order]), np.exp(het), cluster, profile.reference_class
        ),
        spare=spare,
        corrections=_corrections(profile, cluster, order),
        shares=dict(shares or {}),
    )


def _within(
    call_s: Floats, capacity: Floats, required: float, p99_ms: float, variation: float
) -> tuple[float, Floats]:
    """Spare capacity for a latency, and the part of each replica's capacity that may be in use.

    A mixture of replicas is taken to need what its slowest ones need, so that replicas which are much slower
    than the best ones are as good as left out.

    Args:
        call_s: (k, c) time of a call on a replica that has nothing else to do, seconds.
    """
    spares = spare_within(call_s, required, p99_ms, variation)
    least = float(spares.min())
    if not math.isfinite(least):
        return math.inf, MIN_SHARE * capacity
    quick = required + spares <= MAX_NEEDED * (required + least)
    spare = float(spares[quick].max())
    return spare, np.where(quick, 1.0, MIN_SHARE) * _share(required, spare) * capacity


def _share(required: float, spare: float) -> float:
    """Share of the capacity that is in use."""
    return required / (required + spare)


def _widest(profile: WorkloadProfile, confidence: float) -> ErrorTails:
    """Of the factors of performance that are uncertain, the errors that ask for the most headroom."""
    parts = (profile.up, profile.out, profile.het)
    uncertain = [part.tails for part in parts if part.deviation.any()]
    return max(uncertain, key=lambda tails: tails.deviations_at(confidence), default=NORMAL_TAILS)


def _on_some_class(cluster: Cluster, cores: Floats, memory_gb: Floats) -> Bools:
    """(k,) whether a size fits on an empty node of some class; all, where none does."""
    fits = np.zeros(len(cores), dtype=np.bool_)
    for one in cluster.classes:
        fits |= (cores <= one.cores + ROUNDING) & (memory_gb <= one.memory_gb + ROUNDING)
    return fits if fits.any() else np.ones(len(cores), dtype=np.bool_)


def _useful(cores: Floats, memory_gb: Floats) -> Bools:
    """(k,) whether no size that performs at least as well draws at most as much."""
    keep = np.ones(len(cores), dtype=np.bool_)
    for place in range(len(cores)):
        later = slice(place + 1, None)
        keep[place] = not np.any((cores[later] <= cores[place]) & (memory_gb[later] <= memory_gb[place]))
    return keep


def _by_class(profile: WorkloadProfile, cluster: Cluster, where: str) -> tuple[Floats, Floats]:
    """Log performance by class of the cluster, relative to the reference class, and its deviation."""
    known = {name: place for place, name in enumerate(profile.classes)}
    mean, deviation = [], []
    for found in cluster.classes:
        if found.name in known:
            mean.append(float(profile.het.mean[known[found.name]]))
            deviation.append(float(profile.het.deviation[known[found.name]]))
        elif found.speed is not None:
            mean.append(math.log(found.speed))
            deviation.append(DEVIATION_BY_SPEED)
        else:
            raise InputError(
                f"its profile knows the classes {', '.join(known)}, and not {found.name!r}; "
                "measure the workload there, or give the class a speed",
                where=where,
            )
    return np.array(mean), np.array(deviation)


def _corrections(
    profile: WorkloadProfile, cluster: Cluster, order: Ints
) -> dict[tuple[int, int, int], float]:
    sizes = {profile.sizes[index]: place for place, index in enumerate(order.tolist())}
    classes = {found.name: place for place, found in enumerate(cluster.classes)}
    return {
        (sizes[one.size], one.replicas, classes[one.node_class]): one.mean
        for one in profile.corrections
        if one.size in sizes and one.node_class in classes
    }


def _costs(cluster: Cluster, cores: Floats, memory_gb: Floats) -> Floats:
    whole = np.array([found.cost_per_hour or found.cores for found in cluster.classes])
    class_cores = np.array([found.cores for found in cluster.classes])
    class_memory_gb = np.array([found.memory_gb for found in cluster.classes])
    used = cores[:, None] / class_cores + memory_gb[:, None] / class_memory_gb
    return np.asarray(whole * used / 2)
