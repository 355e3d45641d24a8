"""Traffic maps: shares of the traffic by pair of endpoints, their sums by level, and errors between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.traffic.flows import TrafficEndpoint, of_endpoints, summed


class MapLevel(StrEnum):
    """Level at which endpoints are summed to one, the coarsest first.

    Attributes:
        ZONE: all endpoints of a zone.
        GROUP: all endpoints of a group of services that call one another most.
        NODE: all endpoints on a machine.
        SERVICE: all instances of a service.
        INSTANCE: every endpoint alone.
    """

    ZONE = "zone"
    GROUP = "group"
    NODE = "node"
    SERVICE = "service"
    INSTANCE = "instance"

    @property
    def field(self) -> str:
        """Field of an endpoint that holds its name at this level."""
        return "name" if self is MapLevel.INSTANCE else self.value


@dataclass(frozen=True, eq=False)
class TrafficMap:
    """Traffic by pair of names, as a sparse matrix.

    Attributes:
        names: names of rows and columns.
        source: (p,) index of the sender of each pair.
        target: (p,) index of the receiver of each pair.
        amount: (p,) amount of each pair, in any unit, 0 or more.
    """

    names: tuple[str, ...]
    source: Ints
    target: Ints
    amount: Floats

    def shares(self) -> TrafficMap:
        """The same map with amounts that sum to 1; all 0 without traffic."""
        total = self.amount.sum()
        return replace(self, amount=self.amount / total) if total > 0 else self

    def dense(self) -> Floats:
        """(n, n) amounts by sender and receiver."""
        found = np.zeros((len(self.names), len(self.names)))
        np.add.at(found, (self.source, self.target), self.amount)
        return found

    def summed(self, places: Ints, names: Sequence[str]) -> TrafficMap:
        """The map of coarser places.

        Args:
            places: (n,) index of the coarser place of each name.
            names: names of the coarser places.
        """
        keys = places[self.source] * len(names) + places[self.target]
        found, at = np.unique(keys, return_inverse=True)
        return TrafficMap(
            tuple(names),
            found // len(names),
            found % len(names),
            summed(at, self.amount, len(found)),
        )


def level_map(
    endpoints: Sequence[TrafficEndpoint], level: MapLevel, source: Ints, target: Ints, amount: Floats
) -> TrafficMap:
    """Map of a level from amounts by pair of endpoints.

    Args:
        source: (p,) index of the sending endpoint of each pair.
        target: (p,) index of the receiving endpoint of each pair.
        amount: (p,) amount of each pair.
    """
    fine = TrafficMap(tuple(one.name for one in endpoints), source, target, amount)
    names, places = of_endpoints(endpoints, level.field)
    return fine if level is MapLevel.INSTANCE else fine.summed(places, names)


def levels_of(endpoints: Sequence[TrafficEndpoint]) -> list[MapLevel]:
    """Levels that say something of these endpoints, the coarsest first.

    A level says something if its names are fewer than those of the next finer one, or if it is the level of
    services; zones and nodes count where any endpoint states them.
    """
    stated = {
        MapLevel.ZONE: any(one.zone for one in endpoints),
        MapLevel.GROUP: len({one.group for one in endpoints}) > 1,
        MapLevel.NODE: any(one.node for one in endpoints),
        MapLevel.SERVICE: True,
        MapLevel.INSTANCE: len(endpoints) > len({one.service for one in endpoints}),
    }
    return [level for level in MapLevel if stated[level]]


@dataclass(frozen=True, eq=False)
class AlignedMaps:
    """Two maps over the union of their pairs.

    Attributes:
        expected: (p,) share of each pair that was predicted.
        seen: (p,) share of each pair that was seen.
    """

    expected: Floats
    seen: Floats

    @property
    def error(self) -> float:
        """Sum of the differences of all pairs, as a share of the traffic, 0 to 2."""
        return float(np.abs(self.expected - self.seen).sum())

    @property
    def rare(self) -> Bools:
        """(p,) whether a pair is of the half of the pairs, seen at either time, that carry the least."""
        order = np.argsort(self.seen, kind="stable")
        found = np.zeros(len(self.seen), dtype=np.bool_)
        found[order[: len(order) // 2]] = True
        return found

    def error_of(self, some: Bools) -> float:
        """Sum of the differences of some pairs, as a share of what they carry; 0 where they carry nothing.

        Args:
            some: (p,) whether a pair counts.
        """
        carried = float(self.seen[some].sum())
        gap = float(np.abs(self.expected - self.seen)[some].sum())
        return gap / carried if carried > 0 else 0.0


def aligned(expected: TrafficMap, seen: TrafficMap) -> AlignedMaps:
    """Lay two maps side by side, as shares, by the names of their rows and columns."""
    numbers: dict[str, int] = {}
    for name in (*expected.names, *seen.names):
        numbers.setdefault(name, len(numbers))
    columns = []
    for each in (expected.shares(), seen.shares()):
        at = np.array([numbers[name] for name in each.names], np.int64)
        columns.append((at[each.source] * len(numbers) + at[each.target], each.amount))
    keys = np.unique(np.concatenate([column[0] for column in columns]))
    filled = [summed(np.searchsorted(keys, key), amount, len(keys)) for key, amount in columns]
    return AlignedMaps(filled[0], filled[1])
