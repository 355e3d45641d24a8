"""True performance of one workload by size, class of the node and number of replicas."""

from __future__ import annotations

import math

import numpy as np

from kwiken.allocator.workloads.profile import WorkloadProfile
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster


class Truth:
    """A profile taken as exact, on the classes of a cluster.

    Args:
        profile: true behaviour; deviations are not read.

    Attributes:
        tolerated: (s,) pressure that costs 5%, a share, over `SOURCES`.
        caused: (s,) pressure that one replica exerts, a share, over `SOURCES`.

    Raises:
        InputError: names the workload and a class that the profile does not know and that has no speed.
    """

    def __init__(self, profile: WorkloadProfile, cluster: Cluster) -> None:
        self.tolerated = np.maximum(profile.tolerated.mean, 1e-9)
        self.caused = profile.caused.mean
        self._up = {
            (size.cores, size.memory_gb): profile.base * math.exp(log)
            for size, log in zip(profile.sizes, profile.up.mean.tolist(), strict=True)
        }
        self._het = _by_class(profile, cluster)
        self._counts = np.log(profile.replicas)
        self._out = profile.out.mean

    def rate(self, cores: float, memory_gb: float, node_class: int) -> float:
        """Performance of one replica alone, work per second.

        A replica may draw more memory than its size says, where the workload needs more; then the best size
        that the memory covers counts.

        Args:
            cores: number of cores of the replica.
            memory_gb: memory of the replica, in GB.
        """
        key = (cores, memory_gb)
        if key not in self._up:
            self._up[key] = max(
                rate
                for (size_cores, size_gb), rate in self._up.items()
                if size_cores == cores and size_gb <= memory_gb
            )
        return self._up[key] * float(self._het[node_class])

    def efficiency(self, replicas: int) -> float:
        """Share of the sum of their rates that some replicas reach together.

        Args:
            replicas: number of replicas, 0 or more.
        """
        if not replicas:
            return 1.0
        return math.exp(float(np.interp(math.log(replicas), self._counts, self._out))) / replicas


def _by_class(profile: WorkloadProfile, cluster: Cluster) -> Floats:
    known = dict(zip(profile.classes, np.exp(profile.het.mean).tolist(), strict=True))
    factors = []
    for found in cluster.classes:
        factor = known.get(found.name, found.speed)
        if factor is None:
            raise InputError(
                f"its profile does not know the class {found.name!r}; give the class a speed",
                where=f"workload {profile.name!r}",
            )
        factors.append(factor)
    return np.array(factors)
