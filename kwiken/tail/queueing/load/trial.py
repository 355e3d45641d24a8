"""Common requests of a load simulation: drawn once, simulated with and without copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kwiken.tail.queueing.load.stage_model import LoadModel
from kwiken.tail.queueing.simulator.network import QueueSimulation, poisson_arrivals, simulate_queues
from kwiken.tail.queueing.simulator.station import Station

WARM_UP: Final = 0.1  # extra requests as a share of the counted ones: they fill the queues and are discarded


class SharedRequests:
    """Requests drawn from a profile at a factor of its load, the same for every plan that is simulated.

    Args:
        factor: load to simulate, as a multiple of the profile's; above 0.
        requests: number of requests that count, without the warm-up.
        seed: seed of all draws.
    """

    def __init__(self, model: LoadModel, factor: float, requests: int, seed: int) -> None:
        self._model, self._seed = model, seed
        self._warm_up = int(requests * WARM_UP)
        count = requests + self._warm_up
        arriving, choosing, *working = np.random.default_rng([seed, 0]).spawn(2 + len(model.stages))
        self._arrivals = poisson_arrivals(model.rate_per_s * factor, count, arriving)
        rows = model.rows(factor, count, choosing)
        self._given = {
            name: stage.primaries(rows, rng, model.stalls.get(name), factor)
            for (name, stage), rng in zip(model.stages.items(), working, strict=True)
        }

    def run(self, changed: Mapping[str, Station]) -> QueueSimulation:
        """Simulate the requests.

        Args:
            changed: stations that replace the model's own, by stage; for example stations with copies.
        """
        stations = [changed.get(name, stage.station) for name, stage in self._model.stages.items()]
        rng = np.random.default_rng([self._seed, 1])
        return simulate_queues(stations, self._arrivals, rng=rng, given=self._given, warm_up=self._warm_up)
