"""Law of losses: what the pressure of neighbours on several resources leaves of a program's performance."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats
from papers.worlds.crowded.truth.programs import LOSS_OF_SCORE, STEEPNESS
from papers.worlds.crowded.truth.rules import Law

MIN_LEFT = 0.1  # share of performance that the law of knees leaves at least


def left(law: Law, pressure: Floats, max_loss: Floats, half: Floats, tolerated: Floats) -> Floats:
    """Share of performance that is left.

    By one resource, a program loses `max_loss * p^g / (p^g + half^g)` of its performance, where p is the
    demand of the others over what the node has, and g the resource's steepness. What several resources leave
    multiplies. The other two laws are for ablations.

    Args:
        pressure: (n, r) demand of the others, as a share of what the node has.
        max_loss: (n, r) the largest loss by a resource, a share.
        half: (n, r) pressure by which half of that is reached, a share.
        tolerated: (n, r) pressure that costs 5%, a share, which the law of knees is about.

    Returns:
        (n,) shares, from 0 to 1.
    """
    if law is Law.KNEE:
        felt = np.minimum(pressure, 1.0)
        within = LOSS_OF_SCORE * (felt / tolerated) ** 4
        loss = np.where(felt <= tolerated, within, LOSS_OF_SCORE + felt - tolerated)
        return np.asarray(np.maximum(1.0 - loss.max(axis=1), MIN_LEFT))
    steep = pressure**STEEPNESS
    losses = max_loss * steep / (steep + half**STEEPNESS)
    kept = 1.0 - losses
    return np.asarray(kept.min(axis=1) if law is Law.WORST else kept.prod(axis=1))


def processor_left(wanted: Floats, cores: Floats, switching: float) -> Floats:
    """Share of the processor time that programs want which a node gives them.

    Args:
        wanted: (n,) number of cores that all residents of the node want together.
        cores: (n,) number of cores of the node.
        switching: share of processor time left where more is wanted than there is.
    """
    over = wanted > cores
    return np.asarray(np.where(over, switching * cores / np.where(over, wanted, 1.0), 1.0))
