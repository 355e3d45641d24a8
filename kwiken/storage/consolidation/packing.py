"""Packing of data sets on nodes: bandwidth below all residents' limits, capacity, interference, replicas.

The published order of data sets is that of their first appearance among pairs by rising interference. A data
set that fits nowhere stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.storage.consolidation.interference import packing_order

NOWHERE: Final = -1


@dataclass(frozen=True, eq=False)
class PackObjects:
    """Data sets, or parts of them, that are placed whole.

    Attributes:
        names: name of each object, for messages.
        bandwidth: (n,) bandwidth that each needs, in units of MB/s.
        size: (n,) bytes of each, in units of GB.
        bandwidth_limit: (n, k) most bandwidth of a node of each class at which the object meets its target.
        size_limit: (n, k) most bytes of a node of each class, in units of GB.
        app: (n,) application of each object, an index of the table of scores.
        load: (n,) share of its application's peak bandwidth that an object has now.
        datum: (n,) number of the data of which an object is a replica; replicas of one never share a node.
    """

    names: tuple[str, ...]
    bandwidth: Floats
    size: Floats
    bandwidth_limit: Floats
    size_limit: Floats
    app: Ints
    load: Floats
    datum: Ints

    def __len__(self) -> int:
        return len(self.bandwidth)


@dataclass(frozen=True, eq=False)
class DiskNodes:
    """Nodes with their disks.

    Attributes:
        names: name of each node, for messages.
        class_of: (m,) class of each node, a column of the objects' limits.
        capacity: (m,) capacity of each node, in units of GB.
        rated: (m,) rated bandwidth of each node, in units of MB/s.
        zone: (m,) zone of each node; replicas of one datum share no zone where there are enough.
    """

    names: tuple[str, ...]
    class_of: Ints
    capacity: Floats
    rated: Floats
    zone: Ints

    def __len__(self) -> int:
        return len(self.capacity)


@dataclass(frozen=True, kw_only=True)
class PackRules:
    """Rules of a packing.

    Attributes:
        reserve_share: share of the rated bandwidth that stays free for copies and catch-up.
        most_interference: largest sum of the scores of pairs on one node, a share.
        fit: first node that fits, or the one with the least bandwidth left.
        apart: whether replicas keep to zones of their own.
    """

    reserve_share: float = 0.02
    most_interference: float = 0.10
    fit: Literal["first", "best"] = "first"
    apart: bool = True


@dataclass(eq=False)
class NodeLoads:
    """What the residents of each node add up to; limits are those of the strictest resident.

    Attributes:
        place: (n,) node of each object; -1 for none.
        bandwidth: (m,) sum of the bandwidth of the residents, in units of MB/s.
        size: (m,) sum of their bytes, in units of GB.
        interference: (m,) sum of the scores of pairs, a share.
        bandwidth_limit: (m,) smallest limit of the residents, in units of MB/s.
        size_limit: (m,) smallest limit of the residents, in units of GB.
        pressure: (m, a) score that the full load of each application would add to each node, a share.
        count: (m,) number of residents.
    """

    objects: PackObjects
    nodes: DiskNodes
    scores: Floats
    place: Ints
    bandwidth: Floats = field(init=False)
    size: Floats = field(init=False)
    interference: Floats = field(init=False)
    bandwidth_limit: Floats = field(init=False)
    size_limit: Floats = field(init=False)
    pressure: Floats = field(init=False)
    count: Ints = field(init=False)

    def __post_init__(self) -> None:
        """Add up the residents."""
        objects, count = self.objects, len(self.nodes)
        held = np.flatnonzero(self.place >= 0)
        at = self.place[held]
        self.bandwidth = _sums(at, objects.bandwidth[held], count)
        self.size = _sums(at, objects.size[held], count)
        self.count = np.bincount(at, minlength=count)
        self.pressure = np.zeros((count, len(self.scores)))
        self.interference = np.zeros(count)
        by_node = held[np.argsort(at, kind="stable")]
        ends = np.cumsum(self.count)
        for node in np.flatnonzero(self.count).tolist():
            self._weigh(node, by_node[ends[node] - self.count[node] : ends[node]])
        self.bandwidth_limit = np.full(count, np.inf)
        self.size_limit = self.nodes.capacity.astype(np.float64).copy()
        classes = self.nodes.class_of[at]
        np.minimum.at(self.bandwidth_limit, at, objects.bandwidth_limit[held, classes])
        np.minimum.at(self.size_limit, at, objects.size_limit[held, classes])

    def _weigh(self, node: int, members: Ints) -> None:
        """Add up what the residents of a node do to each other, and would do to others."""
        app, load = self.objects.app[members], self.objects.load[members]
        self.pressure[node] = load @ self.scores[app]
        own = load**2 @ self.scores[app, app]
        self.interference[node] = (load @ self.pressure[node, app] - own) / 2

    def added_interference(self, which: int) -> Floats:
        """(m,) interference that an object would add to each node."""
        found: Floats = self.pressure[:, self.objects.app[which]] * self.objects.load[which]
        return found

    def fits(self, which: int, rules: PackRules) -> Bools:
        """(m,) nodes that may take an object."""
        objects, nodes = self.objects, self.nodes
        size_limit = np.minimum(self.size_limit, objects.size_limit[which, nodes.class_of])
        fits: Bools = self.size + objects.size[which] < size_limit
        limit = np.minimum(self.bandwidth_limit, objects.bandwidth_limit[which, nodes.class_of])
        reserve = rules.reserve_share * nodes.rated
        fits &= self.bandwidth + objects.bandwidth[which] < limit - reserve
        fits &= self.interference + self.added_interference(which) < rules.most_interference
        return fits & ~self.taken(which, rules)

    def taken(self, which: int, rules: PackRules) -> Bools:
        """(m,) nodes that hold a replica of the same datum, or stand in the zone of one."""
        others = (self.objects.datum == self.objects.datum[which]) & (self.place >= 0)
        others[which] = False
        taken = np.zeros(len(self.nodes), dtype=bool)
        held = self.place[others]
        taken[held] = True
        if rules.apart and len(held):
            taken |= np.isin(self.nodes.zone, self.nodes.zone[held])
        return taken

    def fits_on(self, node: int, which: Ints, rules: PackRules) -> Bools:
        """(k,) whether each of some objects without a node may go to a node."""
        objects, nodes, kind = self.objects, self.nodes, self.nodes.class_of[node]
        size_limit = np.minimum(self.size_limit[node], objects.size_limit[which, kind])
        fits: Bools = self.size[node] + objects.size[which] < size_limit
        limit = np.minimum(self.bandwidth_limit[node], objects.bandwidth_limit[which, kind])
        reserve = rules.reserve_share * nodes.rated[node]
        fits &= self.bandwidth[node] + objects.bandwidth[which] < limit - reserve
        added = self.pressure[node, objects.app[which]] * objects.load[which]
        fits &= self.interference[node] + added < rules.most_interference
        near = nodes.zone == nodes.zone[node] if rules.apart else np.arange(len(nodes)) == node
        beside = objects.datum[(self.place >= 0) & near[self.place]]
        return fits & ~np.isin(objects.datum[which], beside)

    def put(self, which: int, node: int) -> None:
        """Place an object."""
        objects, kind = self.objects, self.nodes.class_of[node]
        self.interference[node] += self.pressure[node, objects.app[which]] * objects.load[which]
        self.place[which] = node
        self.bandwidth[node] += objects.bandwidth[which]
        self.size[node] += objects.size[which]
        self.pressure[node] += objects.load[which] * self.scores[objects.app[which]]
        self.count[node] += 1
        self.bandwidth_limit[node] = min(self.bandwidth_limit[node], objects.bandwidth_limit[which, kind])
        self.size_limit[node] = min(self.size_limit[node], objects.size_limit[which, kind])

    def take(self, node: int, leaving: Ints) -> None:
        """Take residents off a node; what the others add up to is computed anew."""
        objects = self.objects
        self.place[leaving] = NOWHERE
        members = np.flatnonzero(self.place == node)
        kind = self.nodes.class_of[node]
        self.count[node] = len(members)
        self.bandwidth[node] = objects.bandwidth[members].sum()
        self.size[node] = objects.size[members].sum()
        self.bandwidth_limit[node] = objects.bandwidth_limit[members, kind].min(initial=np.inf)
        self.size_limit[node] = objects.size_limit[members, kind].min(initial=self.nodes.capacity[node])
        self._weigh(node, members)

    def moved(self, node: int, leaving: Ints, tried: Ints, rules: PackRules) -> bool:
        """Move residents of a node to the first other nodes that fit, or none of them where one fits nowhere.

        Args:
            node: node that they leave.
            leaving: (k,) residents, in the order in which they are placed.
            tried: (t,) nodes that may take them, in the order in which they are tried.
            rules: rules of the packing.
        """
        self.take(node, leaving)
        for which in leaving.tolist():
            fits = self.fits(which, rules)[tried]
            if not fits.any():
                self.bring_back(node, leaving)
                return False
            self.put(which, int(tried[np.argmax(fits)]))
        return True

    def bring_back(self, node: int, leaving: Ints) -> None:
        """Undo a move of residents of a node, wherever they are."""
        for target in np.unique(self.place[leaving]).tolist():
            if target != NOWHERE:
                self.take(target, leaving[self.place[leaving] == target])
        for which in leaving.tolist():
            self.put(which, node)


def _sums(place: Ints, values: Floats, count: int) -> Floats:
    return np.bincount(place, weights=values, minlength=count).astype(np.float64)


def placing_order(objects: PackObjects, scores: Floats) -> Ints:
    """(n,) objects by the packing order of their applications; within one, as they are given."""
    limit = np.full(len(scores), np.inf)
    np.minimum.at(limit, objects.app, objects.bandwidth_limit.min(axis=1))
    rank = np.empty(len(scores), dtype=np.int64)
    rank[packing_order(scores, limit)] = np.arange(len(scores))
    return np.argsort(rank[objects.app], kind="stable")


@dataclass(frozen=True, eq=False)
class PackedData:
    """Result of a packing.

    Attributes:
        place: (n,) node of each object; -1 for those without one.
        oversized: objects that stand alone because their own need is above their limit.
        unplaced: objects that no node could take.
    """

    place: Ints
    oversized: tuple[int, ...]
    unplaced: tuple[int, ...]

    @property
    def nodes_used(self) -> int:
        """Number of nodes that hold an object."""
        return len(np.unique(self.place[self.place >= 0]))


def consolidate(
    objects: PackObjects,
    nodes: DiskNodes,
    scores: Floats,
    rules: PackRules,
    *,
    order: Ints,
    start: Ints | None = None,
    open_nodes: Ints | None = None,
) -> PackedData:
    """Place objects without a node in an order.

    Args:
        scores: (a, a) score of each pair of applications, a share.
        order: (n,) objects in the order of placing; those that have a node stay there.
        start: (n,) node of each object so far; None for none.
        open_nodes: (k,) nodes that may take objects, in the order in which they are tried; None for all.
    """
    place = np.full(len(objects), NOWHERE) if start is None else start.copy()
    tried = np.arange(len(nodes)) if open_nodes is None else open_nodes
    return place_objects(NodeLoads(objects, nodes, scores, place), rules, order, tried)


def place_objects(loads: NodeLoads, rules: PackRules, order: Ints, tried: Ints) -> PackedData:
    """Place objects without a node, on top of what nodes hold already.

    Args:
        loads: loads of the nodes; what is placed is added.
        order: (k,) objects in the order of placing; those that have a node stay there.
        tried: (t,) nodes that may take objects, in the order in which they are tried.
    """
    objects, nodes = loads.objects, loads.nodes
    oversized: list[int] = []
    unplaced: list[int] = []
    for which in order.tolist():
        if loads.place[which] >= 0:
            continue
        fits = loads.fits(which, rules)[tried]
        if fits.any():
            loads.put(which, int(tried[_chosen(loads, tried, fits, which, rules)]))
            continue
        empty = tried[(loads.count[tried] == 0) & ~loads.taken(which, rules)[tried]]
        roomy = empty[objects.size[which] < nodes.capacity[empty]]
        if len(roomy):
            loads.put(which, int(roomy[0]))
            oversized.append(which)
        else:
            unplaced.append(which)
    return PackedData(loads.place, tuple(oversized), tuple(unplaced))


def _chosen(loads: NodeLoads, tried: Ints, fits: Bools, which: int, rules: PackRules) -> int:
    """Place among the tried nodes: the first that fits, or the one with the least bandwidth left."""
    places = np.flatnonzero(fits)
    if rules.fit == "first":
        return int(places[0])
    nodes = tried[places]
    limit = np.minimum(
        loads.bandwidth_limit[nodes], loads.objects.bandwidth_limit[which, loads.nodes.class_of[nodes]]
    )
    return int(places[np.argmin(limit - loads.bandwidth[nodes])])
