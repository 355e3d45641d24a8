"""Truth of the lined fleet: how fast jobs run beside their neighbours, and what memory they use.

The law of losses is not the one that schedulers suppose: a resource costs something below the tolerated
pressure too, up to a largest loss of its own, and the worst one counts (a law of the crowded world).
Processors are shared in time, and memory that is used may exceed what is reserved.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats, Ints
from papers.worlds.crowded.truth.law import left, processor_left
from papers.worlds.crowded.truth.programs import RESOURCES, STEEPNESS
from papers.worlds.crowded.truth.rules import Law
from papers.worlds.fleet.world import World
from papers.worlds.waiting import rules

SCORED: Final = [name for name in SOURCES if not name.startswith("cpu-")]
OF_SCORED: Final = np.array([SCORED.index(name) for name in RESOURCES])
MEMORY: Final = SCORED.index("memory-capacity")
LOSS_OF_SCORE: Final = 0.05  # that the tolerated pressure costs, a share
MOST_CAUSED: Final = 0.4  # of the generator: the pressure on memory of an application that uses the most


class LinedTruth:
    """True behaviour of the applications of a world.

    Attributes:
        alone: (n, c) performance alone by class of the cluster, as a share of the best class.
    """

    def __init__(self, world: World) -> None:
        behaviour = world.truth
        rng = np.random.default_rng([world.seed, 38])
        shape = (len(behaviour.het), len(RESOURCES))
        self._max_loss = rng.uniform(rules.LEAST_MAX_LOSS, rules.MOST_MAX_LOSS, shape)
        self._tolerated = np.maximum(behaviour.tolerated[:, OF_SCORED], 1e-6)
        self._half = self._half_pressure()
        self._caused = behaviour.caused[:, OF_SCORED]
        self.alone: Floats = np.exp(behaviour.het)
        pressed = np.clip(behaviour.caused[:, MEMORY] / MOST_CAUSED, 0.0, 1.0)
        spread = rules.MOST_USED_MEMORY - rules.LEAST_USED_MEMORY
        self.used_memory: Floats = rules.LEAST_USED_MEMORY + spread * pressed

    def _half_pressure(self) -> Floats:
        """(n, r) pressure that costs half of the largest loss, so that the tolerated pressure costs 5%."""
        ratio = (self._max_loss - LOSS_OF_SCORE) / LOSS_OF_SCORE
        return np.asarray(self._tolerated * ratio ** (1 / STEEPNESS))

    def speeds(self, rows: Ints, node_class: int, cores: Floats, node_cores: float) -> Floats:
        """Performance of the residents of one node now, as shares of the best class alone.

        Args:
            rows: (k,) application of each resident.
            cores: (k,) number of cores that each reserves.
            node_cores: number of cores that the node has.
        """
        caused = self._caused[rows]
        pressure = np.maximum(caused.sum(axis=0) - caused, 0.0)
        kept = left(Law.WORST, pressure, self._max_loss[rows], self._half[rows], self._tolerated[rows])
        share = processor_left(np.array([cores.sum()]), np.array([node_cores]), rules.SWITCHING)
        return np.asarray(self.alone[rows, node_class] * kept * share[0])
