"""Dial of packing: how many times as dear as a node a unit of risk is.

Dials run from 0 (as few nodes as possible) to 10 (no risk is added). Each step of the dial makes risk three
times as dear. Since all dials choose among the same states by cost plus weight times risk, a higher dial
never chooses fewer nodes nor more risk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError

MIN_RISK_DIAL: Final = 10.0
MIDDLE_WEIGHT: Final = (
    20.0  # nodes that one node above its capacity all the time is worth, at the dial's middle
)
MIDDLE: Final = 5.0
GROWTH: Final = 3.0  # of the weight for each step of the dial
AT_RISK_CHANCE: Final = 0.01  # of a node that is above its capacity, from which its tasks are at risk
SAME_RISK: Final = 1e-9


@dataclass(frozen=True)
class PackedState:
    """State of the cluster after some of the steps.

    Attributes:
        moves: number of moves up to here.
        nodes: number of nodes in use.
        cost: cost of the nodes in use in an hour, or in units of the largest node.
        risk: sum over the nodes of the chance that use is above the capacity: nodes that are above it at a
            time.
        at_risk: number of tasks on nodes whose chance is above 1%.
        seen: share of the time above the capacity in the samples that were packed on, mean of the nodes in
            use.
    """

    moves: int
    nodes: int
    cost: float
    risk: float
    at_risk: int
    seen: float

    @property
    def share(self) -> float:
        """Chance that a node in use is above its capacity, mean of the nodes."""
        return self.risk / self.nodes if self.nodes else 0.0


def weight_of(dial: float) -> float:
    """Nodes that one node above its capacity all the time is worth.

    Args:
        dial: from 0, which gives 0, to 10, which gives infinity.

    Raises:
        InputError: for a dial outside of these, or NaN.
    """
    if not 0 <= dial <= MIN_RISK_DIAL:
        raise InputError(f"must be from 0 to {MIN_RISK_DIAL:g}, not {dial}", where="dial")
    if dial == 0:
        return 0.0
    return math.inf if dial == MIN_RISK_DIAL else MIDDLE_WEIGHT * GROWTH ** (dial - MIDDLE)


def choose_by_dial(states: Sequence[PackedState], dial: float) -> int:
    """Index of the state that a dial chooses.

    Args:
        states: one or more, the first without any step.
        dial: position of the dial, 0 to 10.
    """
    weight = weight_of(dial)
    if not math.isinf(weight):
        return _cheapest(states, weight)
    # No more risk than at the start, nor than the dearest finite weight takes: a cluster may start at risk.
    dearest = _cheapest(states, MIDDLE_WEIGHT * GROWTH ** (MIN_RISK_DIAL - MIDDLE))
    most = min(states[0].risk, states[dearest].risk) + SAME_RISK
    return min(
        (at for at, one in enumerate(states) if one.risk <= most), key=lambda at: (states[at].cost, at)
    )


def _cheapest(states: Sequence[PackedState], weight: float) -> int:
    """State of the least cost plus weight times risk; of equal ones, that of the least risk."""
    unit = states[0].cost / states[0].nodes if states[0].nodes else 1.0
    return min(
        range(len(states)),
        key=lambda at: (states[at].cost / unit + weight * states[at].risk, states[at].risk, at),
    )


def dials_of(states: Sequence[PackedState]) -> dict[int, str]:
    """Whole dials that choose each state, such as `3 to 4`, by the state's index.

    Args:
        states: one or more, the first without any step.
    """
    found: dict[int, list[int]] = {}
    for dial in range(int(MIN_RISK_DIAL) + 1):
        found.setdefault(choose_by_dial(states, dial), []).append(dial)
    return {at: f"{own[0]} to {own[-1]}" if len(own) > 1 else f"{own[0]}" for at, own in found.items()}


def choose_by_risk(states: Sequence[PackedState], share: float) -> int:
    """Index of the cheapest state in which a node is above its capacity for at most this share of the time.

    Args:
        states: one or more, the first without any step; it is chosen where none is within the share.
        share: share of the time, mean of the nodes in use, 0 to 1.
    """
    fits = [at for at, one in enumerate(states) if one.share <= share]
    return min(fits, key=lambda at: (states[at].cost, at), default=0)
