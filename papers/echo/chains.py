"""Hierarchical Markov chain of traffic (ECHO): groups of racks, racks and servers, with landing shares.

Inside a rack every pair of servers has a transition of its own. Between racks of a group, and between
groups, only the coarse transition is kept, with the share of each server in what leaves its rack or group
and in what lands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.traffic.flows import summed

Landing = Literal["gravity", "uniform"]
LEVELS: Final = 3  # groups, racks, servers


def transitions(racks: int, groups: int, servers: int, level: int) -> int:
    """Number of transitions of a chain with groups and racks of equal size, self pairs at the lowest level.

    Args:
        racks: number of racks in all.
        groups: number of groups, which divides the number of racks.
        servers: number of servers of a rack.
        level: 1 for groups, 2 for racks, 3 for servers.
    """
    inside = racks // groups
    if level == 1:
        return groups**2
    if level == 2:  # noqa: PLR2004 - racks
        return groups * (groups - 1) + groups * inside**2
    return groups * (groups - 1) + groups * inside * (inside - 1) + racks * servers**2


@dataclass(frozen=True, eq=False)
class Racks:
    """Rack and group of each server.

    Attributes:
        rack: (n,) number of each server's rack, from 0.
        group: (r,) number of each rack's group, from 0.
    """

    rack: Ints
    group: Ints

    @property
    def server_group(self) -> Ints:
        """(n,) number of each server's group."""
        return np.asarray(self.group[self.rack])

    def among(self, servers: Ints, *, cloud: bool) -> Racks:
        """Racks of some servers; with a cloud, one more server in a rack and a group of its own.

        Args:
            servers: (k,) indices of the servers.
            cloud: whether a last server stands for all the others.
        """
        names, rack = np.unique(self.rack[servers], return_inverse=True)
        _, group = np.unique(self.group[names], return_inverse=True)
        if not cloud:
            return Racks(rack, group)
        return Racks(np.append(rack, len(names)), np.append(group, int(group.max()) + 1))


def subset(traffic: Floats, servers: Ints, *, cloud: bool) -> Floats:
    """Traffic of some servers; with a cloud, a last row and column hold what they exchange with all others.

    Args:
        traffic: (n, n) amounts by sender and receiver.
        servers: (k,) indices of the servers.
    """
    inside = traffic[np.ix_(servers, servers)]
    if not cloud:
        return np.asarray(inside)
    others = np.setdiff1d(np.arange(len(traffic)), servers)
    found = np.zeros((len(servers) + 1, len(servers) + 1))
    found[:-1, :-1] = inside
    found[:-1, -1] = traffic[np.ix_(servers, others)].sum(axis=1)
    found[-1, :-1] = traffic[np.ix_(others, servers)].sum(axis=0)
    return found


def expected_map(traffic: Floats, racks: Racks, levels: int = LEVELS, landing: Landing = "gravity") -> Floats:
    """(n, n) amounts that a chain expects which was trained on a traffic matrix.

    Args:
        traffic: (n, n) amounts by sender and receiver.
        levels: 1 for groups alone, 2 for groups and racks, 3 with servers. Below the lowest level, servers
            send and receive alike.
        landing: how traffic between racks is divided among servers: `gravity` by the servers' shares in what
            leaves and lands, `uniform` evenly.
    """
    same_rack = racks.rack[:, None] == racks.rack
    same_group = racks.server_group[:, None] == racks.server_group
    by_share = landing == "gravity" and levels == LEVELS
    if levels == 1:
        return _divided(traffic, racks.server_group, np.ones_like(same_rack), by_share=False)
    between = _divided(traffic * ~same_group, racks.server_group, ~same_group, by_share=by_share)
    if levels == 2:  # noqa: PLR2004 - racks
        return np.asarray(between + _divided(traffic * same_group, racks.rack, same_group, by_share=False))
    near = same_group & ~same_rack
    inside = _divided(traffic * near, racks.rack, near, by_share=by_share)
    return np.asarray(between + inside + traffic * same_rack)


def _divided(traffic: Floats, place: Ints, allowed: Bools, *, by_share: bool) -> Floats:
    """Sums of the traffic by pair of places, divided among the servers of both.

    Args:
        traffic: (n, n) amounts of one level.
        place: (n,) number of each server's place.
        allowed: (n, n) pairs that belong to the level.
        by_share: whether servers get their shares in what leaves and lands; evenly otherwise.
    """
    places = int(place.max()) + 1
    onto = np.zeros((len(place), places))
    onto[np.arange(len(place)), place] = 1.0
    table = onto.T @ traffic @ onto
    if by_share:
        out, into = (_share(traffic.sum(axis=axis), place, places) for axis in (1, 0))
    else:
        out = into = 1.0 / summed(place, np.ones(len(place)), places)[place]
    found = (onto * out[:, None]) @ table @ (onto * into[:, None]).T
    return np.asarray(found * allowed)


def _share(amount: Floats, place: Ints, places: int) -> Floats:
    total = summed(place, amount, places)[place]
    return np.asarray(np.divide(amount, total, out=np.zeros_like(amount), where=total > 0))
