"""Tree of machines, racks and pods with slots and links, and virtual clusters reserved in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError

ROUNDING = 1e-9  # of a link's bandwidth


@dataclass(frozen=True, eq=False)
class TreeReservation:
    """Virtual cluster in a tree: slots on machines, and bandwidth on the links that separate them.

    Attributes:
        size: number of slots, N.
        bandwidth: bandwidth between them, B.
        machines: (k,) machines that have some of the slots, ascending.
        counts: (k,) number of slots on each.
    """

    size: int
    bandwidth: float
    machines: Ints
    counts: Ints


@dataclass(eq=False)
class RackTree:
    """Three levels of links: machines in racks, racks in pods, pods at one core.

    Args:
        slots: number of slots of each machine.
        rack_of: (m,) rack of each machine, from 0, ascending.
        pod_of: (r,) pod of each rack, from 0, ascending.
        machine_link: bandwidth of each machine's link.
        rack_link: bandwidth of each rack's uplink.
        pod_link: bandwidth of each pod's uplink.
    """

    slots: int
    rack_of: Ints
    pod_of: Ints
    machine_link: float
    rack_link: float
    pod_link: float
    free: Ints = field(init=False)
    links: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        """Free all slots and links."""
        if self.slots < 1 or not len(self.rack_of) or not len(self.pod_of):
            raise InputError("a tree needs slots, machines and racks: 1 or more of each", where="cluster")
        self.machine_pod = self.pod_of[self.rack_of]
        self.free = np.full(len(self.rack_of), self.slots, dtype=np.int64)
        self.capacity = (self.machine_link, self.rack_link, self.pod_link)
        counts = (len(self.rack_of), len(self.pod_of), int(self.pod_of.max()) + 1)
        self.links = [np.full(count, link) for count, link in zip(counts, self.capacity, strict=True)]
        self.sizes = [
            np.full(counts[0], float(self.slots)),
            self.slots * np.bincount(self.rack_of, minlength=counts[1]).astype(np.float64),
            self.slots * np.bincount(self.machine_pod, minlength=counts[2]).astype(np.float64),
        ]

    def largest(self, size: int, bandwidth: float) -> tuple[Ints, Ints, Ints]:
        """Most slots of a virtual cluster that each machine, rack and pod can take, links above included.

        A link that separates k of N slots from the others must carry the smaller of k and N - k times the
        bandwidth, so that a subtree that can take all needs none of its own link.
        """
        most = self.free
        found = []
        for level, (parent, count) in enumerate(
            ((None, 0), (self.rack_of, len(self.pod_of)), (self.pod_of, len(self.links[2])))
        ):
            total = most if parent is None else np.bincount(parent, most, minlength=count).astype(np.int64)
            most = self._through(np.minimum(total, size), self.links[level], size, bandwidth)
            found.append(most)
        return found[0], found[1], found[2]

    @staticmethod
    def _through(most: Ints, link: Floats, size: int, bandwidth: float) -> Ints:
        """Most of up to `most` slots whose link has room: k in [0, a] or in [N - a, N]."""
        if bandwidth <= 0:
            return most
        allowed = np.floor(link / bandwidth + ROUNDING).astype(np.int64)
        return np.where(most >= size - allowed, most, np.minimum(most, allowed))

    def reserve(self, size: int, bandwidth: float, *, exact: bool = True) -> TreeReservation | None:
        """Find slots in the lowest subtree that has room, without taking them; None if there are none.

        Inside the subtree children are filled in order, each as far as it can be. Where that fails, since a
        link may have room for few or for nearly all slots and not for numbers between, all sums over children
        are tried.

        Args:
            size: number of slots, 1 or more.
            bandwidth: bandwidth between them, 0 or more.
            exact: whether all sums are tried where filling fails; the published search does not.
        """
        machine, rack, pod = self.largest(size, bandwidth)
        whole = np.flatnonzero(machine >= size)
        if len(whole):
            best = whole[np.argmin(self.free[whole])]
            return TreeReservation(size, bandwidth, np.array([best]), np.array([size]))
        for groups, inside in (
            (self.rack_of, np.bincount(self.rack_of, machine, minlength=len(rack))),
            (self.machine_pod, np.bincount(self.pod_of, rack, minlength=len(pod))),
            (np.zeros(len(machine), dtype=np.int64), np.array([pod.sum()])),
        ):
            for group in np.flatnonzero(inside >= size).tolist():
                members = np.flatnonzero(groups == group)
                found = self._filled(members, machine, rack, pod, size, bandwidth)
                if found is not None:
                    return found
        return self._by_sums(size, bandwidth) if exact else None

    def _filled(
        self, members: Ints, machine: Ints, rack: Ints, pod: Ints, size: int, bandwidth: float
    ) -> TreeReservation | None:
        """Fill the machines of a subtree in order, racks and pods no further than their links allow."""
        order = members[np.lexsort((-machine[members], self.rack_of[members], self.machine_pod[members]))]
        counts = machine[order].copy()
        for parent, most, single in (
            (self.rack_of[order], rack, len(np.unique(self.rack_of[members])) == 1),
            (self.machine_pod[order], pod, len(np.unique(self.machine_pod[members])) == 1),
        ):
            if single:
                continue
            before = np.cumsum(counts) - counts
            first = np.concatenate([[True], parent[1:] != parent[:-1]])
            within = before - np.maximum.accumulate(np.where(first, before, 0))
            counts = np.clip(most[parent] - within, 0, counts)
        before = np.cumsum(counts) - counts
        counts = np.clip(size - before, 0, counts)
        if counts.sum() < size:
            return None
        kept = counts > 0
        sort = np.argsort(order[kept])
        found = TreeReservation(size, bandwidth, order[kept][sort], counts[kept][sort])
        return found if self.has_room(found) else None

    def _by_sums(self, size: int, bandwidth: float) -> TreeReservation | None:
        """Exact search: numbers of slots that each subtree can take, as sums over its children."""
        leaves = [
            {
                count
                for count in range(min(int(self.free[m]), size) + 1)
                if self._fits(0, m, count, size, bandwidth)
            }
            for m in range(len(self.free))
        ]
        racks = [
            self._sums([leaves[m] for m in np.flatnonzero(self.rack_of == r)], size)
            for r in range(len(self.pod_of))
        ]
        fit_racks = [
            {count for count in found[-1] if self._fits(1, r, count, size, bandwidth)}
            for r, found in enumerate(racks)
        ]
        pods = [
            self._sums([fit_racks[r] for r in np.flatnonzero(self.pod_of == p)], size)
            for p in range(len(self.links[2]))
        ]
        fit_pods = [
            {count for count in found[-1] if self._fits(2, p, count, size, bandwidth)}
            for p, found in enumerate(pods)
        ]
        top = self._sums(fit_pods, size)
        if size not in top[-1]:
            return None
        counts: dict[int, int] = {}
        for pod, of_pod in self._split(top, fit_pods, size):
            own_racks = np.flatnonzero(self.pod_of == pod).tolist()
            for place, of_rack in self._split(pods[pod], [fit_racks[r] for r in own_racks], of_pod):
                own = np.flatnonzero(self.rack_of == own_racks[place]).tolist()
                for leaf, count in self._split(racks[own_racks[place]], [leaves[m] for m in own], of_rack):
                    counts[own[leaf]] = count
        machines = np.array(sorted(machine for machine, count in counts.items() if count), dtype=np.int64)
        return TreeReservation(size, bandwidth, machines, np.array([counts[m] for m in machines.tolist()]))

    def _fits(self, level: int, place: int, count: int, size: int, bandwidth: float) -> bool:
        return bool(min(count, size - count) * bandwidth <= self.links[level][place] * (1 + ROUNDING))

    @staticmethod
    def _sums(children: Sequence[set[int]], size: int) -> list[set[int]]:
        """Sums that the first 0, 1, ... children can make, up to a size."""
        found = [{0}]
        for child in children:
            found.append({a + b for a in found[-1] for b in child if a + b <= size})
        return found

    @staticmethod
    def _split(
        sums: Sequence[set[int]], children: Sequence[set[int]], total: int
    ) -> Iterator[tuple[int, int]]:
        """Numbers of the children that make a total."""
        left = total
        for place in range(len(children) - 1, -1, -1):
            count = max(count for count in children[place] if left - count in sums[place])
            yield place, count
            left -= count

    def demands(self, found: TreeReservation) -> list[tuple[Ints, Floats]]:
        """Bandwidth that a reservation needs on links: by level, the places and the bandwidth of each."""
        out = []
        groups: Ints = found.machines
        counts: Ints = found.counts
        for parent in (None, self.rack_of, self.pod_of):
            if parent is not None:
                numbers, where = np.unique(parent[groups], return_inverse=True)
                counts = np.bincount(where, counts).astype(np.int64)
                groups = numbers
            out.append((groups, np.minimum(counts, found.size - counts) * found.bandwidth))
        return out

    def has_room(self, found: TreeReservation) -> bool:
        """Whether all slots and links of a reservation are free."""
        if (self.free[found.machines] < found.counts).any():
            return False
        return all(
            bool((need <= self.links[level][places] * (1 + ROUNDING)).all())
            for level, (places, need) in enumerate(self.demands(found))
        )

    def take(self, found: TreeReservation, sign: int = 1) -> None:
        """Take the slots and links of a reservation; with a sign of -1 give them back."""
        self.free[found.machines] -= sign * found.counts
        for level, (places, need) in enumerate(self.demands(found)):
            self.links[level][places] -= sign * need

    def imbalance(self, found: TreeReservation, resources: str = "changed") -> float:
        """Sum of (1 - utilisation) squared after a reservation that is not taken yet.

        Args:
            resources: `changed` for the slots of machines, racks and pods and the links whose use changes;
                `machines` for machines and links alone; `all` for every resource of the tree.
        """
        total = 0.0
        groups, counts = found.machines, found.counts
        needs = self.demands(found)
        free: Floats = self.free.astype(np.float64)
        for level in range(3):
            if level:
                parent = (self.rack_of, self.pod_of)[level - 1]
                numbers, where = np.unique(parent[groups], return_inverse=True)
                counts = np.bincount(where, counts).astype(np.int64)
                groups = numbers
                free = np.bincount(parent, free, minlength=len(self.sizes[level])).astype(np.float64)
            left = free.copy()
            left[groups] -= counts
            share = left / self.sizes[level]
            places, need = needs[level]
            link = self.links[level].copy()
            link[places] -= need
            unused = link / self.capacity[level]
            if resources == "all":
                total += float((share**2).sum() + (unused**2).sum())
                continue
            if level == 0 or resources == "changed":
                total += float((share[groups] ** 2).sum())
            total += float((unused[places[need > 0]] ** 2).sum())
        return total
