"""Retention in the simulated cloud: a multiple of the spin-up, or a time learned from gaps."""

from __future__ import annotations

import numpy as np

from kwiken.allocator.provisioning.offers import NodeOffer, Terms
from kwiken.allocator.provisioning.retention import keep_idle_s
from papers.worlds.cloud.settings import CloudSettings, Keeping
from papers.worlds.cloud.weather import SPIN_UP_FACTOR, TYPICAL_S

RECENT = 200  # gaps that are looked at


class IdleRule:
    """Rule for idle nodes of one size.

    Args:
        size: number of cores of the nodes.
    """

    def __init__(self, size: int, settings: CloudSettings) -> None:
        self._boot_s = TYPICAL_S * SPIN_UP_FACTOR[size] * settings.spin_up_factor
        self._settings = settings
        self._gaps: list[float] = []
        self._offer = NodeOffer(
            name="node",
            node_class="node",
            terms=Terms.ON_DEMAND,
            cores=float(size),
            price_per_hour=float(size),
            boot_s=self._boot_s,
        )

    def reused(self, gap_s: float) -> None:
        """Note that an idle node was used again.

        Args:
            gap_s: time for which the node was idle, seconds.
        """
        self._gaps.append(gap_s)

    def keep_s(self) -> float:
        """Time for which a node that is idle now is kept, seconds."""
        if self._settings.keeping is Keeping.LEARNED:
            return keep_idle_s(self._offer, np.array(self._gaps[-RECENT:]))
        return self._settings.retention * self._boot_s
