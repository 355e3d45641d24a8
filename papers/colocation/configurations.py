"""The five configurations, packed from nothing and by 400 moves from a placement in use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.packing.drains import after, drain_steps
from kwiken.allocator.packing.goals import PackingGoal
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster, plain_cluster
from kwiken.base.arrays import Floats, Ints
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.colocation.architectures import ARCHITECTURES, LARGE, NAMES
from papers.colocation.fleet import SyntheticFleet, allowed_hosts, drawn_fleet

# Name: whether cores and memory are packed by percentile, and the weight of the sum of scores above 1.
CONFIGURATIONS: Final = {
    "Baseline": (False, False, 0.0),
    "P99 CPU": (True, False, 0.0),
    "P99 Mem": (False, True, 0.0),
    "P99": (True, True, 0.0),
    "P99 Sens": (True, True, math.inf),
}
LAMBDAS: Final = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, math.inf)
MAX_MOVES: Final = 400
PRICES: Final = np.where(LARGE, 3.3, 1.0)
ROUNDING: Final = 1e-9
NOWHERE: Final = -1


@dataclass(frozen=True)
class PackedFleet:
    """Fleet packed from nothing by a configuration.

    Attributes:
        hosts: number of hosts in use.
        by_type: number of hosts in use of each type.
        tasks_by_type: number of tasks on hosts of each type.
        unplaced: number of tasks that no host could take.
        fragmentation: share of the cores and of the memory of hosts in use that is not used, by percentile.
        weighted: sum of the scores of the types of the hosts in use.
        cost: prices of the hosts in use: all, large, small.
        affected: number of tasks on hosts with a sum of scores above 1.
        excess: sum of what is above 1, by dimension.
    """

    hosts: int
    by_type: tuple[int, ...]
    tasks_by_type: tuple[int, ...]
    unplaced: int
    fragmentation: tuple[float, float]
    weighted: float
    cost: tuple[float, float, float]
    affected: int
    excess: tuple[float, ...]


@dataclass(frozen=True)
class MovedFleet:
    """Fleet after 400 moves from the placement in use.

    Attributes:
        moves: number of tasks moved.
        freed: number of hosts freed, by type.
        touched: number of hosts that tasks left or came to.
        remaining: number of those that are in use afterwards.
    """

    moves: int
    freed: tuple[int, ...]
    touched: int
    remaining: int


def needs_of(fleet: SyntheticFleet, configuration: str) -> Floats:
    """(t, 2) Cores and memory that a configuration reserves for each task."""
    cpu, memory, _ = CONFIGURATIONS[configuration]
    sources = (fleet.used if cpu else fleet.requested, fleet.used if memory else fleet.requested)
    return np.stack([sources[0][:, 0], sources[1][:, 1]], axis=1)


def packed_from_nothing(fleet: SyntheticFleet, needs: Floats, scores: Floats, weight: float) -> Ints:
    """First fit, the largest task first, hosts of the highest score first.

    A host in use takes a task if the sum of scores above 1 that it adds costs less than a new host.

    Args:
        needs: (t, 2) cores and memory of each task.
        scores: (6, t, 3) scores of the tasks by type.
        weight: hosts that a sum of 1 above 1 is worth; infinite where sums may not be above 1.

    Returns:
        (t,) host of each task; -1 where no host can take it.
    """
    order = np.argsort(-fleet.speed, kind="stable")
    free = np.stack([fleet.cores, fleet.memory_gb], axis=1)[order]
    kinds = fleet.architecture[order]
    allowed = allowed_hosts(fleet)[:, order]
    sums, used = np.zeros((len(order), scores.shape[2])), np.zeros(len(order), dtype=np.bool_)
    found = np.full(len(needs), NOWHERE, dtype=np.int64)
    for task in np.argsort(-np.maximum(needs[:, 0] / 56, needs[:, 1] / 256), kind="stable").tolist():
        fits = allowed[task] & np.all(free >= needs[task] - ROUNDING, axis=1)
        over = np.maximum(0.0, sums + scores[kinds, task] - 1.0).sum(axis=1)
        added = over - np.maximum(0.0, sums - 1.0).sum(axis=1)
        price = np.where(used, 0.0, 1.0)
        if weight > 0:
            price = price + np.where(added > ROUNDING, weight, 0.0) * np.where(added > ROUNDING, added, 0.0)
        price = np.where(fits, price, np.inf)
        at = int(np.argmin(price))
        if not np.isfinite(price[at]):
            continue
        free[at] -= needs[task]
        sums[at] += scores[kinds[at], task]
        used[at] = True
        found[task] = order[at]
    return found


def described(fleet: SyntheticFleet, host: Ints, scores: Floats) -> PackedFleet:
    """Metrics of a packing.

    Args:
        host: (t,) host of each task; -1 for none.
        scores: (6, t, 3) scores of the tasks by type.
    """
    placed = np.flatnonzero(host != NOWHERE)
    where = host[placed]
    used = np.unique(where)
    kinds = fleet.architecture
    sums = np.zeros((len(kinds), scores.shape[2]))
    np.add.at(sums, where, scores[kinds[where], placed])
    capacity = np.array([fleet.cores[used].sum(), fleet.memory_gb[used].sum()])
    free = 1.0 - fleet.used[placed].sum(axis=0) / capacity
    prices, large = PRICES[kinds[used]], LARGE[kinds[used]]
    above = np.any(sums > 1.0 + ROUNDING, axis=1)
    return PackedFleet(
        hosts=len(used),
        by_type=tuple(np.bincount(kinds[used], minlength=len(NAMES)).tolist()),
        tasks_by_type=tuple(np.bincount(kinds[where], minlength=len(NAMES)).tolist()),
        unplaced=len(host) - len(placed),
        fragmentation=(float(free[0]), float(free[1])),
        weighted=float(fleet.speed[used].sum()),
        cost=(float(prices.sum()), float(prices[large].sum()), float(prices[~large].sum())),
        affected=int(above[where].sum()),
        excess=tuple(np.maximum(0.0, sums - 1.0).sum(axis=0).tolist()),
    )


def in_use(fleet: SyntheticFleet, seed: int) -> Ints:
    """Placement in use: each task on a random host with room for its request."""
    rng = np.random.default_rng([seed, 141])
    free = np.stack([fleet.cores, fleet.memory_gb], axis=1)
    allowed = allowed_hosts(fleet)
    found = np.full(len(fleet.requested), NOWHERE, dtype=np.int64)
    for task in np.argsort(-fleet.requested[:, 1], kind="stable").tolist():
        fits = np.flatnonzero(allowed[task] & np.all(free >= fleet.requested[task], axis=1))
        if fits.size:
            found[task] = int(rng.choice(fits))
            free[found[task]] -= fleet.requested[task]
    return found


def moved(fleet: SyntheticFleet, host: Ints, configuration: str, scores: Floats) -> MovedFleet:
    """Free hosts by at most 400 moves from the placement in use.

    Args:
        host: (t,) host of each task; tasks without a host are left out.
        scores: (6, t, 3) scores of the tasks by type.
    """
    placed = np.flatnonzero(host != NOWHERE)
    packed = _packed(fleet, placed, host[placed])
    weight = CONFIGURATIONS[configuration][2]
    goal = PackingGoal(
        hard=needs_of(fleet, configuration)[placed],
        capacity=np.stack([fleet.cores, fleet.memory_gb], axis=1),
        soft=scores[:, placed] if weight else np.zeros((len(NAMES), len(placed), 1)),
        penalty=_excess,
        level=None,
        node_cost=fleet.speed,
        spread=1.0,
        apart=packed.apart,
    )
    steps = []
    start = float(_excess(_sums(goal, packed), np.arange(len(fleet.cores))).sum())
    for step in drain_steps(packed, goal, MAX_MOVES):
        if math.isinf(weight) and step.penalty > start + ROUNDING:
            break
        steps.append(step)
    node = after(packed.node, steps)
    changed = node != packed.node
    touched = np.unique(np.concatenate([packed.node[changed], node[changed]]))
    freed = [step.freed for step in steps if step.freed is not None]
    return MovedFleet(
        moves=int(changed.sum()),
        freed=tuple(np.bincount(fleet.architecture[freed], minlength=len(NAMES)).tolist())
        if freed
        else (0,) * len(NAMES),
        touched=len(touched),
        remaining=int(np.isin(touched, node).sum()),
    )


def _sums(goal: PackingGoal, packed: PackedCluster) -> Floats:
    found = np.zeros((len(packed.cluster.nodes), goal.soft.shape[2]))
    np.add.at(
        found, packed.node, goal.soft[packed.cluster.class_of[packed.node], np.arange(len(packed.node))]
    )
    return found


def _excess(sums: Floats, nodes: Ints) -> Floats:
    del nodes
    return np.asarray(np.maximum(0.0, sums - 1.0).sum(axis=1), dtype=np.float64)


def _packed(fleet: SyntheticFleet, tasks: Ints, node: Ints) -> PackedCluster:
    from dataclasses import replace

    classes = tuple(
        NodeClass(name=one.name, cores=one.cores, memory_gb=one.memory_gb) for one in ARCHITECTURES
    )
    nodes = tuple(Node(f"host-{at}", NAMES[kind]) for at, kind in enumerate(fleet.architecture.tolist()))
    names = tuple(f"task-{task}" for task in tasks.tolist())
    requested = fleet.requested[tasks]
    packed = plain_cluster(Cluster(classes, nodes), names, names, requested[:, 0], requested[:, 1], node)
    return replace(packed, kinds=np.arange(len(tasks)), allowed=allowed_hosts(fleet)[tasks])


def one_seed(seed: int) -> tuple[dict[str, PackedFleet], dict[str, MovedFleet], dict[float, PackedFleet]]:
    """Every configuration and every weight of the dial on one fleet.

    Returns:
        packings from nothing by configuration (`P99 Sens, host basis` too), moves by configuration, and
        packings by weight.
    """
    fleet = drawn_fleet(seed)
    scores, literal = fleet.sensitivity("request"), fleet.sensitivity("host")
    start = in_use(fleet, seed)
    packings, moves = {}, {}
    for name, (*_, weight) in CONFIGURATIONS.items():
        needs = needs_of(fleet, name)
        packings[name] = described(fleet, packed_from_nothing(fleet, needs, scores, weight), scores)
        moves[name] = moved(fleet, start, name, scores)
    needs = needs_of(fleet, "P99 Sens")
    host = packed_from_nothing(fleet, needs, literal, math.inf)
    packings["P99 Sens, host basis"] = described(fleet, host, literal)
    dials = {
        weight: described(fleet, packed_from_nothing(fleet, needs, scores, weight), scores)
        for weight in LAMBDAS
    }
    return packings, moves, dials
