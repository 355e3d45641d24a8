"""Programs of the crowded world: speed by machine type, use of resources, processor and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from papers.worlds.crowded.truth import rules
from papers.worlds.crowded.truth.measured_speeds import PERMILLE

# Resources that slow a program down when others press on them; memory kills instead.
RESOURCES: Final = (
    "l1i",
    "l1d",
    "l2",
    "l3-capacity",
    "l3-bandwidth",
    "tlb",
    "memory-bandwidth",
    "disk",
    "network",
)
STEEPNESS: Final = np.array(
    [
        rules.STEEPNESS_OF_RATES
        if name.endswith("bandwidth") or name in {"disk", "network"}
        else rules.STEEPNESS_OF_ROOM
        for name in RESOURCES
    ]
)
# Level of use by kind of program and resource, from 0 to 1; columns as RESOURCES.
KINDS: Final = np.array(
    [
        (0.4, 0.7, 0.5, 0.2, 0.2, 0.2, 0.1, 0.0, 0.0),  # computes
        (0.2, 0.5, 0.6, 0.9, 0.5, 0.6, 0.3, 0.0, 0.0),  # lives in the last-level cache
        (0.1, 0.3, 0.4, 0.5, 0.9, 0.5, 1.0, 0.0, 0.0),  # streams through memory
        (0.5, 0.3, 0.3, 0.3, 0.2, 0.3, 0.3, 1.0, 0.1),  # reads and writes a disk
        (0.8, 0.4, 0.4, 0.3, 0.2, 0.4, 0.2, 0.1, 1.0),  # answers requests
        (0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.3, 0.3),  # a bit of everything
    ]
)
MAIN_KIND: Final = 0.8  # weight of a program's main kind; the rest is another kind's
LOSS_OF_SCORE: Final = 0.05  # that defines a score of tolerance, a share
SPREAD_OF_USE: Final = 0.3  # log units, by program and resource


@dataclass(frozen=True, eq=False)
class Programs:
    """True properties of p programs.

    Attributes:
        log_speed: (p, t) log speed alone by machine type of the cluster, 0 on the best one, in log units.
        cores: (p,) number of reserved cores.
        memory_gb: (p,) reserved memory, in GB.
        busy: (p,) mean share of its cores that a program keeps busy.
        peak_gb: (p,) memory at its peak, in GB.
        peak_at: (p,) share of the duration alone after which memory is at its peak.
        demand: (p, r) pressure on a reference node that a program exerts when it runs, a share.
        max_loss: (p, r) the largest loss of performance by a resource, a share.
        half: (p, r) pressure by which half of that is reached, a share.
    """

    log_speed: Floats
    cores: Floats
    memory_gb: Floats
    busy: Floats
    peak_gb: Floats
    peak_at: Floats
    demand: Floats
    max_loss: Floats
    half: Floats

    @property
    def tolerated(self) -> Floats:
        """(p, r) pressure that costs 5%, as a share of what a node has (Paragon section 3.3); at most 1."""
        more = self.max_loss > LOSS_OF_SCORE
        ratio = LOSS_OF_SCORE / np.where(more, self.max_loss - LOSS_OF_SCORE, 1.0)
        return np.where(more, np.minimum(self.half * ratio ** (1 / STEEPNESS), 1.0), 1.0)

    def caused(self, capacity: Floats) -> Floats:
        """(p, r) pressure that a program exerts on a node, as a share of what the node has, at most 1.

        Args:
            capacity: (r,) what the node has of each resource, as shares of the reference node.
        """
        return np.minimum(self.demand / capacity, 1.0)


def drawn_programs(rng: np.random.Generator, types: Ints, unlikeness: float) -> tuple[Programs, Programs]:
    """Programs that arrive, and those that are known whole.

    Each is a blend of two measured ones. Those that are known whole are made from other measured programs
    than those that arrive.

    Args:
        types: (t,) columns of the measured speeds.
        unlikeness: factor of the differences of log speed, 0 or more.
    """
    measured = np.log(np.array(PERMILLE, dtype=np.float64) / 1000)[:, types]
    order = rng.permutation(len(measured))
    known_rows, new_rows = order[: rules.HISTORY_ROWS], order[rules.HISTORY_ROWS :]
    return (
        _drawn(rng, measured[new_rows], rules.PROGRAMS, unlikeness),
        _drawn(rng, measured[known_rows], rules.KNOWN_WHOLE, unlikeness),
    )


def _drawn(rng: np.random.Generator, measured: Floats, count: int, unlikeness: float) -> Programs:
    one, other = rng.integers(len(measured), size=(2, count))
    weight = rng.uniform(0, 1, (count, 1))
    log = weight * measured[one] + (1 - weight) * measured[other]
    log = unlikeness * (log + rng.normal(0, rules.BLEND_NOISE, log.shape))
    cores = rng.choice(rules.PROGRAM_CORES, count, p=rules.PROGRAM_CORE_SHARES).astype(np.float64)
    low, high = np.log(rules.MIN_GB_PER_CORE), np.log(rules.MAX_GB_PER_CORE)
    memory_gb = cores * np.exp(rng.uniform(low, high, count))
    main, second = rng.integers(len(KINDS), size=(2, count))
    use = MAIN_KIND * KINDS[main] + (1 - MAIN_KIND) * KINDS[second]
    shape = use.shape
    demand = use * np.exp(rng.normal(0, SPREAD_OF_USE, shape)) * (cores / rules.CORES_OF_REFERENCE)[:, None]
    dependence = np.minimum(use * np.exp(rng.normal(0, SPREAD_OF_USE, shape)), 1.0)
    return Programs(
        log_speed=log - log.max(axis=1, keepdims=True),
        cores=cores,
        memory_gb=memory_gb,
        busy=rng.beta(rules.BUSY_ALPHA, rules.BUSY_BETA, count),
        peak_gb=memory_gb * rng.uniform(*rules.PEAK_OVER_RESERVED, count),
        peak_at=rng.uniform(*rules.PEAK_AT, count),
        demand=demand,
        max_loss=rules.MAX_LOSS * dependence,
        half=rules.HALF_PRESSURE * np.exp(rng.normal(0, rules.SPREAD_OF_HALF, shape)),
    )
