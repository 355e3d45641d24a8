"""ShuffleWatcher, beside which the source is compared: the racks that move the fewest bytes over the core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Ints
from kwiken.batch.rack_simulation.schedulers import JobPlace, remote_share
from kwiken.batch.racks.response import RackJob


@dataclass(frozen=True)
class ShuffleWatcher:
    """ShuffleWatcher: the set of racks that moves the fewest bytes over the core, for each job by itself.

    Few racks keep a shuffle local; many find more of the input, which is spread at random. Neither other jobs
    nor the load of racks count, and racks of a size are equal, so the set is drawn.
    """

    slots_a_rack: int
    name: str = "ShuffleWatcher"

    def place(self, job: RackJob, racks: int, waiting_slots: Ints, chance: np.random.Generator) -> JobPlace:
        """Racks with the fewest bytes over the core; by arrival."""
        del waiting_slots
        numbers = np.arange(1, racks + 1)
        shuffled = sum(stage.shuffled_bytes for stage in job.stages)
        remote = np.array([remote_share(int(number), racks) for number in numbers])
        crossing = job.input_bytes * remote + shuffled * (numbers - 1) / numbers
        width = int(numbers[int(np.argmin(crossing))])
        own = np.sort(chance.permutation(racks)[:width])
        return JobPlace((1.0, job.arrival_s), own, float(remote[width - 1]))
