"""Constants of the lined fleet, committed before the fleet was run (papers/results/arq.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

QOS: Final = (
    0.95  # of the performance alone on the best platform, from which quality of service counts as kept
)
LITTLE: Final = 0.90  # the same for a loss below 10%
# Predicted share of the best performance from which a node is accepted in lines by suitability: predictions
# are off by some percent, and a good node that is refused costs as much as a poor one that is taken.
ACCEPTED: Final = 0.90
LOSS: Final = 0.05  # share of its best time that a job may lose, measurement and charged waiting included
MEASURING_S: Final = 5.0  # to profile and classify an application that was not seen before, in seconds

MAX_LOSS_FLOOR, MAX_LOSS_CEILING = 0.1, 0.6  # by one resource, of an application that depends on it
# Memory that an application uses, as a share of its reservation: by the pressure that it causes on memory.
MIN_USED_MEMORY, MAX_USED_MEMORY = 0.5, 1.1
SHORT_OF_MEMORY_S: Final = 30.0  # that a node runs slowly before the largest excess is killed, in seconds
AGAIN_S: Final = 30.0  # after which a killed job joins the line again, in seconds
MAX_KILLS: Final = 3  # after which a job did not finish
SWITCHING: Final = 0.98  # share of processor time left where more is wanted than there is
OVERSOLD: Final = 1.5  # cores that a manager without admission sells for each that a node has
TYPICAL_CORES: Final = 2.75  # mean of the applications' reservations, by which free slots are counted
HIGH: Final = 0.2  # share of the jobs with high priority
PAST: Final = 50  # past applications that suitable qualities are learned from, at most


@dataclass(frozen=True)
class LinedRules:
    """Rules that an ablation may change; the defaults are the lined fleet.

    Attributes:
        together: whether an application that presses hard also bears little, which the generator leaves open.
        contention: factor on the pressure of neighbours, above 0.
        platforms: whether platforms differ in speed.
    """

    together: bool = False
    contention: float = 1.0
    platforms: bool = True


ABLATIONS: Final = {
    "needs go together": LinedRules(together=True),
    "a tenth of the contention": LinedRules(contention=0.1),
    "platforms alike": LinedRules(platforms=False),
}
