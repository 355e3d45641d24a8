"""Synthetic fleet of the reproduction: 900 hosts of six types, 1,000 tasks with requests, use and scores.

All constants were fixed before the first run but for the share of small tasks. One fleet showed 52% small
hosts instead of 45.9%, so the share was lowered, and all fleets are drawn from fresh seeds since. Tasks of
the small type run on hosts of the small type only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.colocation.architectures import ARCHITECTURES, LARGE, architecture
from papers.colocation.sensitivity import carried

HOSTS, TASKS = 900, 1000
# Shares of the types among the hosts, and of small tasks: about 45.9% of the baseline's hosts are small.
HOST_MIX: Final = np.array([0.13, 0.08, 0.20, 0.25, 0.13, 0.21])
SMALL_TASKS: Final = 0.40
CLUSTER_MIX: Final = (0.5, 0.3, 0.2)  # low, medium, high use
CORES: Final = {True: (8.0, 30.0), False: (4.0, 16.0)}  # requests of large and of small tasks
MEMORY_GB: Final = {True: (30.0, 130.0), False: (4.0, 28.0)}
CPU_USED: Final = (0.35, 0.5, 0.75)  # p99 of use as a share of the request, by cluster
MEMORY_USED: Final = (0.45, 0.6, 0.85)
DEVIATION: Final = 0.1
# Scores on Broadwell20 by cluster: the mean of the two services that the source measured in it.
SCORES: Final = np.array([(0.65, 0.5, 0.6), (0.63, 0.5, 0.45), (0.87, 0.8, 0.93)])
SHARE_FACTOR: Final = (
    1.3  # share of a host that a task's need is, for each share of its cores that is requested
)


@dataclass(frozen=True, eq=False)
class SyntheticFleet:
    """Hosts and tasks.

    Attributes:
        architecture: (h,) index of each host's type in Table I.
        cores: (h,) number of cores of each host.
        memory_gb: (h,) memory of each host, in units of GB.
        large: (t,) whether each task needs a host of the large type.
        cluster: (t,) cluster of each task by use: 0 low, 1 medium, 2 high.
        requested: (t, 2) cores and memory in GB that each task requests.
        used: (t, 2) 99th percentile of cores and of memory in GB that each task uses.
    """

    architecture: Ints
    cores: Floats
    memory_gb: Floats
    large: Bools
    cluster: Ints
    requested: Floats
    used: Floats

    @property
    def speed(self) -> Floats:
        """(h,) Score of each host's type."""
        return np.array([one.speed for one in ARCHITECTURES])[self.architecture]

    def sensitivity(self, basis: str) -> Floats:
        """Scores of the tasks on each type.

        Args:
            basis: `request`, which scales scores by the share of the host that is requested, or `host`, which
                takes them as shares of the host.

        Returns:
            (6, t, 3) scores by type, task and dimension.
        """
        measured_on = architecture("Broadwell20")
        found = np.stack([carried(SCORES, measured_on, one)[self.cluster] for one in ARCHITECTURES])
        if basis == "request":
            share = SHARE_FACTOR * self.requested[:, 0] / np.array([[one.cores] for one in ARCHITECTURES])
            found *= share[:, :, None]
        return found


def drawn_fleet(seed: int) -> SyntheticFleet:
    """Draw hosts and tasks."""
    rng = np.random.default_rng([seed, 140])
    kinds = rng.permutation(np.repeat(np.arange(len(ARCHITECTURES)), np.round(HOSTS * HOST_MIX).astype(int)))
    large = rng.random(TASKS) >= SMALL_TASKS
    cluster = rng.choice(3, TASKS, p=CLUSTER_MIX)

    def between(bounds: dict[bool, tuple[float, float]]) -> Floats:
        low, high = (np.where(large, bounds[True][at], bounds[False][at]) for at in (0, 1))
        return np.asarray(rng.uniform(low, high), dtype=np.float64)

    requested = np.stack([between(CORES), between(MEMORY_GB)], axis=1)
    means = np.stack([np.array(CPU_USED)[cluster], np.array(MEMORY_USED)[cluster]], axis=1)
    ratio = np.clip(rng.normal(means, DEVIATION), 0.05, 1.0)
    sizes = np.array([(one.cores, one.memory_gb) for one in ARCHITECTURES], dtype=np.float64)[kinds]
    return SyntheticFleet(
        architecture=kinds.astype(np.int64),
        cores=sizes[:, 0],
        memory_gb=sizes[:, 1],
        large=large,
        cluster=cluster.astype(np.int64),
        requested=requested,
        used=requested * ratio,
    )


def allowed_hosts(fleet: SyntheticFleet) -> Bools:
    """(t, h) Whether each task may run on each host, by type."""
    return np.asarray(fleet.large[:, None] == LARGE[fleet.architecture], dtype=np.bool_)
