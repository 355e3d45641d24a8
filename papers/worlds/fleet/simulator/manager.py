"""Manager: a scheduler, with settings for the time after placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.order import Scheduler

DETECTION_S: Final = 30.0  # a deviation that lasts this long is acted on by Paragon (section 3.9)


@dataclass(frozen=True, eq=False)
class Manager:
    """A scheduler with what it knows and how it goes on.

    Attributes:
        follows: whether deviations are detected and acted on after placement.
        chooses_sizes: whether the manager chooses sizes and numbers of replicas by its predictions, and
            accepts a placement that is predicted to come within 5% of the need. A manager of reservations
            places what the user reserves, whole, and never changes its amount.
        detection_s: time for which a deviation must last before it is acted on, in seconds.
    """

    name: str
    scheduler: Scheduler
    caution: Caution
    follows: bool
    chooses_sizes: bool
    detection_s: float = DETECTION_S

    @property
    def measures_again(self) -> bool:
        """Whether a workload that deviates is measured again, as Paragon does (section 3.9).

        A manager that chooses sizes takes what it observes instead (Quasar section 3.6).
        """
        return self.follows and not self.chooses_sizes
