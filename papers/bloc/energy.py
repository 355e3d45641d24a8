"""Power of storage nodes: idle and peak power with a line between them, and what starting one costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class NodePower:
    """Power of one node.

    Attributes:
        idle_w: power when no disk works, a number of watts.
        peak_w: power at full use, a number of watts.
        boot_s: time to start at peak power, seconds.
        stop_s: time to stop at idle power, seconds.
    """

    idle_w: float = 200.0
    peak_w: float = 300.0
    boot_s: float = 60.0
    stop_s: float = 10.0

    def watts(self, use: Floats | float) -> Floats:
        """(n,) power at shares of use, a number of watts."""
        return self.idle_w + (self.peak_w - self.idle_w) * np.clip(np.asarray(use, dtype=np.float64), 0, 1)


def energy_wh(
    power: list[NodePower], class_of: Ints, use: Floats, awake: Floats, started: Ints, seconds: float
) -> float:
    """Energy of all nodes in an interval, in units of Wh.

    Args:
        power: power of each class of nodes.
        class_of: (m,) class of each node.
        use: (m,) share of each node's rated bandwidth that is in use.
        awake: (m,) share of the interval in which each node is on.
        started: (m,) number of times that each node was started.
        seconds: length of the interval, seconds.
    """
    total = 0.0
    for kind, each in enumerate(power):
        chosen = class_of == kind
        total += float((each.watts(use[chosen]) * awake[chosen]).sum()) * seconds
        cost = each.boot_s * each.peak_w + each.stop_s * each.idle_w
        total += float(started[chosen].sum()) * cost
    return total / 3600.0
