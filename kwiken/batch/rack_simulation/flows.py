"""Rates of flows between racks: max-min fair shares."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints

ALMOST: Final = 1.0 + 1e-9  # shares that differ by less are equal
MIN_SHARE: Final = 1e-9  # of a link, below which it counts as full


class FlowTable:
    """Flows that run, as columns: from which rack to which, what is left, and how many tasks fetch by it."""

    def __init__(self) -> None:
        self.source: Ints = np.zeros(0, dtype=np.int64)
        self.target: Ints = np.zeros(0, dtype=np.int64)
        self.left: Floats = np.zeros(0)
        self.weight: Floats = np.zeros(0)
        self.group: Ints = np.zeros(0, dtype=np.int64)
        self.coflow: Ints = np.zeros(0, dtype=np.int64)
        self.rate: Floats = np.zeros(0)

    def __len__(self) -> int:
        return len(self.left)

    def add(self, source: Ints, target: int, left: Floats, *, weight: float, group: int, coflow: int) -> None:
        """Add flows of one group of tasks.

        Args:
            source: (n,) racks that the bytes come from.
            target: rack of the tasks.
            left: (n,) bytes of each flow.
            weight: number of tasks that fetch, by which the flows share links.
            group: number of the group of tasks.
            coflow: number of the stage, whose flows end together for a scheduler of coflows.
        """
        count = len(left)
        self.source = np.concatenate([self.source, source])
        self.target = np.concatenate([self.target, np.full(count, target)])
        self.left = np.concatenate([self.left, left])
        self.weight = np.concatenate([self.weight, np.full(count, weight)])
        self.group = np.concatenate([self.group, np.full(count, group)])
        self.coflow = np.concatenate([self.coflow, np.full(count, coflow)])

    def keep(self, kept: Bools) -> None:
        """Drop all other flows."""
        for name in ("source", "target", "left", "weight", "group", "coflow"):
            setattr(self, name, getattr(self, name)[kept])


def max_min_rates(flows: FlowTable, links: Floats, task_bytes_per_s: float) -> Floats:
    """Weighted max-min fair rates: TCP with one connection for each task that fetches.

    A flow crosses the uplink of its source and the downlink of its target, and has at most its tasks' own
    bandwidth. In each round all links and flows that are the tightest among their neighbours are settled, so
    that few rounds are needed.

    Args:
        links: (2 R,) bandwidth of the uplinks, then of the downlinks, bytes per second.
        task_bytes_per_s: most that one task fetches, bytes per second.
    """
    racks = len(links) // 2
    up, down, weight = flows.source, flows.target + racks, flows.weight
    rates = np.zeros(len(flows))
    left = links.astype(np.float64).copy()
    running = np.arange(len(flows))
    while len(running):
        u, d, w = up[running], down[running], weight[running]
        demand = np.bincount(u, weights=w, minlength=2 * racks) + np.bincount(
            d, weights=w, minlength=2 * racks
        )
        share = np.divide(left, demand, out=np.full(2 * racks, np.inf), where=demand > 0)
        own = np.minimum(np.minimum(share[u], share[d]), task_bytes_per_s)
        # Smallest share of any flow of each link: a link whose own share it is settles all its flows.
        least = np.full(2 * racks, np.inf)
        np.minimum.at(least, u, own)
        np.minimum.at(least, d, own)
        tight = share <= least * ALMOST
        settled = tight[u] | tight[d] | (own >= task_bytes_per_s)
        if not settled.any():
            settled[:] = True
        rate = own[settled] * w[settled]
        rates[running[settled]] = rate
        left -= np.bincount(u[settled], weights=rate, minlength=2 * racks)
        left -= np.bincount(d[settled], weights=rate, minlength=2 * racks)
        np.maximum(left, 0.0, out=left)
        running = running[~settled]
    return rates
