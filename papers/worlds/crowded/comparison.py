"""Comparison of managers in a crowded world: orders by paired differences over seeds, and ablations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scipy.special import stdtrit

from kwiken.base.arrays import Floats
from papers.worlds.crowded.managers import CROWDED_MANAGERS, FOLLOWING
from papers.worlds.crowded.simulation import CrowdedSimulation
from papers.worlds.crowded.truth.draw import drawn_world
from papers.worlds.crowded.truth.rules import ABLATIONS, Rules

CONFIDENCE: Final = 0.99  # of an interval of paired differences
MEAN: Final = "mean performance, %"
ORDERED: Final = (MEAN, "QoS kept, %")  # figures by which managers are ordered; more is better
# Orders that the sources claim or that this project would like, fixed before the world was run.
CROWDED_PAIRS: Final = (
    ("all known", "chosen entries"),
    ("chosen entries", "paragon"),
    ("margin", "paragon"),
    ("paragon", "interference only"),
    ("paragon", "heterogeneity only"),
    ("paragon", "least loaded"),
    ("paragon", "least used"),
    ("margin", "least loaded"),
    ("margin", "least used"),
    ("chosen entries, margin", "least used"),
    ("best predicted", "chosen entries"),
    ("best predicted", "least used"),
    ("least loaded", "random"),
    *((f"{name}{FOLLOWING}", name) for name in ("paragon", "margin", "chosen entries, margin")),
    *((f"{name}{FOLLOWING}", name) for name in ("best predicted", "least loaded", "least used")),
    *((f"{name}{FOLLOWING}", f"least used{FOLLOWING}") for name in ("paragon", "chosen entries, margin")),
)
# Orders of which ablations are shown, by placement alone.
ABLATED_PAIRS: Final = (
    ("paragon", "least loaded"),
    ("chosen entries, margin", "least used"),
    ("best predicted", "least used"),
    ("paragon", "heterogeneity only"),
    ("paragon", "interference only"),
)


class OrderVerdict(StrEnum):
    """Verdict of an interval of paired differences on an order."""

    HOLDS = "holds"
    FAILS = "FAILS"
    TIE = "tie"


@dataclass(frozen=True)
class PairedOrder:
    """Order of two managers by one figure.

    Attributes:
        figure: name of the figure; the more the better.
        lead: mean over the seeds of the first manager's figure less the second's, in units of the figure.
        low: lower end of the interval of that mean, in units of the figure.
        high: upper end of it, in units of the figure.
    """

    first: str
    second: str
    figure: str
    lead: float
    low: float
    high: float

    @property
    def verdict(self) -> OrderVerdict:
        """An order holds or fails if its interval is on one side of 0; else there is a tie: no order."""
        if self.low > 0:
            return OrderVerdict.HOLDS
        return OrderVerdict.FAILS if self.high < 0 else OrderVerdict.TIE


def crowded(
    load: str,
    seed: int,
    managers: Sequence[str],
    *,
    changed: Rules | None = None,
    arrivals_s: Floats | None = None,
) -> dict[str, dict[str, float]]:
    """Figures of one draw under some managers, by their names.

    Args:
        changed: rules of an ablation; None for the rules of the world.
        arrivals_s: (j,) times of arrival, in seconds; None for a Poisson process.
    """
    world = drawn_world(load, seed, changed, arrivals_s)
    return {name: CrowdedSimulation(world, CROWDED_MANAGERS[name], name).run().summary() for name in managers}


def ablated(load: str, seed: int, name: str) -> dict[str, dict[str, float]]:
    """Figures of one draw with one rule changed, for the managers of `ABLATED_PAIRS`."""
    managers = dict.fromkeys(one for pair in ABLATED_PAIRS for one in pair)
    return crowded(load, seed, tuple(managers), changed=ABLATIONS[name])


def paired(
    runs: Sequence[Mapping[str, Mapping[str, float]]], first: str, second: str, figure: str
) -> PairedOrder:
    """Paired difference of two managers over seeds, with Student's interval.

    Args:
        runs: figures by manager, for each seed; two seeds or more.
    """
    leads = [run[first][figure] - run[second][figure] for run in runs]
    lead = statistics.fmean(leads)
    half = (
        float(stdtrit(len(leads) - 1, (1 + CONFIDENCE) / 2)) * statistics.stdev(leads) / math.sqrt(len(leads))
    )
    return PairedOrder(first, second, figure, lead, lead - half, lead + half)
