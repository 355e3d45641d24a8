"""Exact placement by integer programming, for small clusters: what greedy placement is compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kwiken.allocator.placement.anti_affinity import AntiAffinity
from kwiken.allocator.placement.node_ledger import ROUNDING, NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import by_quality, walk
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.base.extras import needs

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MAX_VARIABLES: Final = 20_000  # beyond which the solver takes hours
INFEASIBLE: Final = 2  # status of the solver


@dataclass(frozen=True, eq=False)
class Optimum:
    """Placement of the least cost.

    Attributes:
        cost: cost of all replicas in an hour; infinite where the targets cannot all be met, or where the time
            was too short to meet them.
        bound: largest cost that is proven to be no more than the least one; equal to `cost` where the solver
            finished.
        counts: by workload: (n, k) number of replicas by node and size.
    """

    cost: float
    bound: float
    counts: tuple[Floats, ...]


class _Program:
    """Rows and columns of a mixed-integer linear program, as they are built up.

    The solver keeps rows to a millionth, far beyond errors of rounding.
    """

    def __init__(self) -> None:
        self.upper: list[float] = []
        self.cost: list[float] = []
        self._entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def columns(self, count: int, *, upper: float, cost: float = 0.0) -> list[int]:
        """Add whole-numbered variables from 0 to an upper bound; returns their indices."""
        first = len(self.upper)
        self.upper += [upper] * count
        self.cost += [cost] * count
        return list(range(first, first + count))

    def row(
        self, entries: Sequence[tuple[int, float]], *, low: float = -np.inf, high: float = np.inf
    ) -> None:
        """Add a constraint on a weighted sum of variables."""
        place = len(self.low)
        self._entries += [(place, column, weight) for column, weight in entries]
        self.low.append(low)
        self.high.append(high)

    def matrix(self) -> csr_matrix:
        """The constraints' weights."""
        from scipy.sparse import csr_matrix

        rows, columns, weights = zip(*self._entries, strict=True)
        return csr_matrix((weights, (rows, columns)), shape=(len(self.low), len(self.upper)))


def solve(requests: Sequence[PlacementRequest], ledger: NodeLedger, *, time_limit_s: float = 60.0) -> Optimum:
    """Place workloads together at the least cost, so that every target is met.

    The program has the variables x[w, n, k], the number of replicas; z[w, n], 1 where there is any; and
    y[w, m], whether there are m in all. It holds room, anti-affinity, residents' slack and newcomers'
    tolerance. A neighbour costs each replica `later_loss`, which the greedy walk supposes too. The program is
    exact where that is at least the 5% that tolerated pressure costs, and where predictions are taken as they
    are; with headroom it asks mixtures of sizes and classes for a little more than the walk does.

    Args:
        ledger: state of the nodes; it is not changed.
        time_limit_s: time after which the best placement so far is returned, seconds.

    Raises:
        InputError: when the cluster or the number of workloads is too large.
    """
    nodes = len(ledger.cluster.nodes)
    size = sum(nodes * (len(one.cores) + 1) + len(one.efficiency) for one in requests)
    if size > MAX_VARIABLES:
        raise InputError(f"exact placement takes at most {MAX_VARIABLES} variables; these are {size}")
    with needs("kwiken.allocator.schedulers", "plan"):
        from scipy.optimize import Bounds, LinearConstraint, milp
    program = _Program()
    replicas, present = [], []
    for request in requests:
        anti_affinity = AntiAffinity(request.workload.spread, ledger.cluster)
        x, z = _variables(program, request, ledger, anti_affinity)
        replicas.append(x)
        present.append(z)
        _target(program, request, ledger, x)
        for group in large_groups(anti_affinity):
            program.row([(z[node], 1.0) for node in group], high=1)
    _room(program, requests, ledger, replicas)
    _contention(program, requests, ledger, replicas, present)
    found = milp(
        np.array(program.cost),
        integrality=np.ones(len(program.cost)),
        bounds=Bounds(0, np.array(program.upper)),
        constraints=LinearConstraint(program.matrix(), program.low, program.high),
        options={"time_limit": time_limit_s, "mip_rel_gap": 1e-6},
    )
    if found.x is None:
        none = tuple(np.zeros((nodes, len(one.cores))) for one in requests)
        bound = np.inf if found.status == INFEASIBLE else float(found.mip_dual_bound or 0.0)
        return Optimum(np.inf, bound, none)
    counts = tuple(np.round(np.array(found.x)[np.array(x)]) for x in replicas)
    return Optimum(float(found.fun), float(found.mip_dual_bound), counts)


def large_groups(anti_affinity: AntiAffinity) -> list[list[int]]:
    """Indices of the nodes of each group that has more than one node."""
    groups: dict[int, list[int]] = {}
    for node in range(len(anti_affinity.cluster.nodes)):
        if (group := anti_affinity.group_of(node)) is not None:
            groups.setdefault(group, []).append(node)
    return [group for group in groups.values() if len(group) > 1]


def _variables(
    program: _Program, request: PlacementRequest, ledger: NodeLedger, anti_affinity: AntiAffinity
) -> tuple[list[list[int]], list[int]]:
    """Columns of a workload: replicas by node and size, and presence by node."""
    x, z = [], []
    free_cores, _ = _free(ledger)
    most_here = len(request.efficiency) if anti_affinity.shares_nodes else 1
    for node in range(len(ledger.cluster.nodes)):
        here = []
        for size in range(len(request.cores)):
            room = free_cores[node] / request.all_cores[size]
            most = min(most_here, int(room + ROUNDING))
            cost = float(request.cost[size, ledger.cluster.class_of[node]]) * request.work
            here += program.columns(1, upper=most, cost=cost)
        (there,) = program.columns(1, upper=1)
        program.row([*((column, 1.0) for column in here), (there, -most_here)], high=0)
        x.append(here)
        z.append(there)
    return x, z


def _target(program: _Program, request: PlacementRequest, ledger: NodeLedger, x: list[list[int]]) -> None:
    """One number of replicas is chosen, and their rates meet the target at its efficiency."""
    counts = range(request.workload.min_nodes, len(request.efficiency) + 1)
    y = program.columns(len(counts), upper=1)
    flat = [column for here in x for column in here]
    program.row([(column, 1.0) for column in y], low=1, high=1)
    numbers = [(column, -float(count)) for column, count in zip(y, counts, strict=True)]
    program.row([*((column, 1.0) for column in flat), *numbers], low=0, high=0)
    # With headroom, each replica counts for less, by its own deviation. That is exact where all replicas have
    # one size and class; the errors of different ones partly cancel, so a mixture is asked for a little more.
    kept = (1.0 - request.caution.later_loss) / request.required
    for column, count in zip(y, counts, strict=True):
        common = request.base_deviation**2 + float(request.count_deviation[count - 1]) ** 2
        weights = []
        for node, here in enumerate(x):
            node_class = int(ledger.cluster.class_of[node])
            for size, replica in enumerate(here):
                own = request.size_deviations[size] ** 2 + request.class_deviations[node_class] ** 2
                sure = 1.0 + request.caution.headroom(math.sqrt(common + own))
                weights.append((replica, kept * request.rates[size][node_class] / sure))
        program.row([*weights, (column, -1.0 / float(request.efficiency[count - 1]))], low=0)


def _free(ledger: NodeLedger) -> tuple[Floats, Floats]:
    """(n,) cores and GB of memory that are free; no cores on a node that is sold beyond its cores."""
    return np.maximum(ledger.free_cores, 0.0), ledger.free_memory_gb


def _room(
    program: _Program,
    requests: Sequence[PlacementRequest],
    ledger: NodeLedger,
    replicas: list[list[list[int]]],
) -> None:
    drawn = [one.all_cores for one in requests], [one.memory_gb for one in requests]
    for free, by_request in zip(_free(ledger), drawn, strict=True):
        for node in range(len(ledger.cluster.nodes)):
            entries = [
                (column, float(weight))
                for x, weights in zip(replicas, by_request, strict=True)
                for column, weight in zip(x[node], weights, strict=True)
            ]
            program.row(entries, high=float(free[node]))


def _contention(
    program: _Program,
    requests: Sequence[PlacementRequest],
    ledger: NodeLedger,
    replicas: list[list[list[int]]],
    present: list[list[int]],
) -> None:
    """Pressure stays within the slack of residents, and every present newcomer's tolerance."""
    caused = np.array([one.caused for one in requests])
    classes, of_size = ledger.cluster.class_numbers, dict[int, int]()  # presence by column of replicas
    for source in np.flatnonzero(caused.any(axis=0) | ledger.pressure.any(axis=1)).tolist():
        for node in range(len(ledger.cluster.nodes)):
            pressure = [
                (column, weight)
                for one, x in zip(requests, replicas, strict=True)
                for column, weight in zip(
                    x[node], one.all_pressure[source, :, classes[node]].tolist(), strict=True
                )
            ]
            if caused[:, source].any():
                program.row(pressure, high=max(float(ledger.slack[source, node]), 0.0))
            # Where a workload is not there, its bound is lifted to the most pressure there can be.
            most = sum(program.upper[column] * weight for column, weight in pressure)
            for request, x, z in zip(requests, replicas, present, strict=True):
                at = source, slice(None), classes[node]
                for size, (tolerated, own) in enumerate(
                    zip(request.borne[at].tolist(), request.pressure[at].tolist(), strict=True)
                ):
                    bound = tolerated + own - float(ledger.pressure[source, node])
                    if tolerated >= 1.0 or (size and not request.pressed):
                        continue
                    there = z[node]
                    if request.pressed:
                        column = x[node][size]
                        if column not in of_size:
                            (of_size[column],) = program.columns(1, upper=1)
                            program.row([(column, 1.0), (of_size[column], -program.upper[column])], high=0)
                        there = of_size[column]
                    program.row([*pressure, (there, most - bound)], high=most)


@dataclass(frozen=True)
class ExactScheduler:
    """Placement of one workload at the least cost, by integer programming; for small clusters.

    Attributes:
        time_limit_s: time after which the best placement so far is taken, seconds.
    """

    time_limit_s: float = 20.0
    name: str = "exact"

    def place(self, sizing: Sizing) -> None:
        """Take the cheapest replicas that meet the target; none where nothing meets it.

        Best-effort work is placed on the nodes ranked best: no target says how much of it is wanted.

        Raises:
            InputError: when the cluster is too large, or the workload has replicas already.
        """
        request = sizing.request
        if not request.required:
            walk(sizing, by_quality)
            return
        if sizing.replicas:
            raise InputError("exact placement moves nothing that runs", where=f"workload {request.name!r}")
        (counts,) = solve([request], sizing.ledger, time_limit_s=self.time_limit_s).counts
        for (node, size), count in np.ndenumerate(counts):
            for _ in range(int(count)):
                sizing.add(node, size)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the target is met as surely as asked."""
        return sizing.forecast().met
