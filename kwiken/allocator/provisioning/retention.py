"""Retention of idle nodes: by the gaps that a load had, by ski rental where it had none."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.allocator.provisioning.offers import NodeOffer
from kwiken.base.arrays import Floats

BOOT_WEIGHT: Final = 10.0  # cost of one boot, in idle times as long as the boot: waiting work counts too
MAX_LEVELS: Final = 200  # numbers of nodes whose gaps are looked at
MIN_GAPS: Final = 20  # learned from, instead of ski rental


def ski_rental_s(offer: NodeOffer) -> float:
    """Time for which an idle node is kept by ski rental, seconds: at most twice the best cost.

    An idle node costs as much as a boot after this time; a boot counts ten times, since work waits for the
    node (HCloud section 3.4 keeps for ten boots). A node is kept at least for what is billed anyway.
    """
    return max(BOOT_WEIGHT * offer.boot_s, offer.min_billed_s)


def retention_cost_s(gaps_s: Floats, keep_s: float, boot_s: float) -> float:
    """Cost of gaps under a time of keeping, in seconds of one node.

    Args:
        gaps_s: (n,) times between idle and needed again, seconds.
        keep_s: time for which an idle node is kept, seconds.
        boot_s: boot time, seconds.
    """
    boots = BOOT_WEIGHT * boot_s * float((gaps_s > keep_s).sum())
    return float(np.minimum(gaps_s, keep_s).sum()) + boots


def keep_idle_s(offer: NodeOffer, gaps_s: Floats) -> float:
    """Time for which an idle node of an offer is kept, seconds.

    With few gaps, or none that is short, it is that of ski rental: a load does not show gaps within a step.
    With 20 or more it is the one that would have cost least on them,
    of no keeping, ski rental and the lengths of the gaps up to ski rental.

    Args:
        gaps_s: (n,) times between idle and needed again, seconds, such as `idle_gaps_s` finds.
    """
    most = ski_rental_s(offer)
    if len(gaps_s) < MIN_GAPS or most == 0 or float(gaps_s.min()) > most:
        return most
    short = np.unique(gaps_s[gaps_s <= most])
    choices = [most, offer.min_billed_s, *(float(gap) for gap in short)]
    return min(choices, key=lambda keep_s: (retention_cost_s(gaps_s, keep_s, offer.boot_s), keep_s))


def idle_gaps_s(nodes: Floats, step_s: float) -> Floats:
    """(g,) Lengths of the times for which nodes were idle until they were needed again, seconds.

    Args:
        nodes: (n,) number of nodes needed in each step; the k-th node is needed where that is k or more.
        step_s: length of a step, seconds.
    """
    found = []
    lowest, highest = (float(end) for end in (nodes.min(), nodes.max()))
    for level in np.unique(np.ceil(np.linspace(lowest, highest, MAX_LEVELS))):
        needed = np.flatnonzero(nodes >= level)
        steps = np.diff(needed)
        found.append((steps[steps > 1] - 1) * step_s)
    return np.concatenate(found).astype(np.float64)
