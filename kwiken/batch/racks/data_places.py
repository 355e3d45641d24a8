"""Places of data: the first replica on the racks of a job, two more on the rack with the fewest bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats, Ints

FURTHER_REPLICAS = 2


@dataclass(frozen=True, eq=False)
class DataPlaces:
    """Racks of the replicas of each job's input.

    Attributes:
        further_rack: (J,) rack of the second and third replica of each job's input, outside its own racks
            where there is another.
        rack_bytes: (R,) bytes of all replicas on each rack.
    """

    further_rack: Ints
    rack_bytes: Floats

    @property
    def variation(self) -> float:
        """Coefficient of variation of the bytes on the racks; 0 where there are none."""
        mean = float(self.rack_bytes.mean())
        return float(self.rack_bytes.std() / mean) if mean > 0 else 0.0


def place_data(input_bytes: Floats, racks_of: Sequence[Sequence[int]], racks: int) -> DataPlaces:
    """Places of the replicas of each job's input: largest inputs first, each to the least loaded rack.

    The first replica is spread evenly over the job's racks. The others never share a rack with it unless the
    job has all racks, when a chunk's other replicas are on the rack after its own.

    Args:
        input_bytes: (J,) size of each job's input, bytes.
        racks_of: racks of each job, from 0.
        racks: number of racks, 1 or more.
    """
    load = np.zeros(racks)
    for job, own in enumerate(racks_of):
        load[list(own)] += input_bytes[job] / len(own)
    further = np.zeros(len(racks_of), dtype=np.int64)
    for job in np.argsort(-input_bytes, kind="stable").tolist():
        own = racks_of[job]
        others = load.copy()
        if len(own) < racks:
            others[list(own)] = np.inf
        further[job] = int(np.argmin(others))
        load[further[job]] += FURTHER_REPLICAS * input_bytes[job]
    return DataPlaces(further, load)
