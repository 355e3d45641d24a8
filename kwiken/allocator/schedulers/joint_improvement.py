"""Joint improvement: workloads that were placed one after another are placed anew, alone and in pairs.

The first workload takes the best nodes, whatever they are worth to the others. So one or two workloads at a
time give their nodes back and choose again, in turn, with nodes made dearer at random. What comes out is kept
if it costs less; what runs already stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from kwiken.allocator.placement.order import Newcomer
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import trim
from kwiken.base.arrays import Floats

SEED: Final = 0  # the same placement each time
MAX_TRIES: Final = 400
TRIES_OF_PAIR: Final = 12  # for each pair of workloads, within `MAX_TRIES`
MAX_DEARER: Final = 0.5  # standard deviation of the logarithm of the random factors of cost
MIN_GAIN: Final = 1e-6  # relative, of cost
Choose = Callable[[Sizing, Floats], None]


def put(sizing: Sizing, choice: Iterable[tuple[int, int]]) -> None:
    """Add replicas where they fit, and trim them if they meet the target.

    Args:
        choice: pairs of a node and the index of a size; each fits without the others.
    """
    kept = len(sizing.replicas)
    sizing.add_all(choice)
    if sizing.meets():
        trim(sizing, kept)


def improve(newcomers: Sequence[Newcomer], choose: Choose) -> None:
    """Lower the cost of newly placed workloads; workloads that meet their targets go on to do so.

    A workload that waits is tried too: it is placed if others can be placed beside it.

    Args:
        newcomers: workloads with a target; each keeps the replicas that it had before.
        choose: places one workload at a low cost, with a factor of every node's cost.
    """
    if not newcomers:
        return
    rng = np.random.default_rng(SEED)
    count, nodes = len(newcomers), len(newcomers[0].sizing.ledger.cluster.nodes)
    pairs = count * (count - 1) // 2
    given = _given(newcomers)
    for number in range(min(MAX_TRIES, TRIES_OF_PAIR * max(pairs, 1))):
        some = rng.choice(count, size=min(count, 1 + number % 3), replace=False).tolist()
        scale = MAX_DEARER * rng.random() if number >= count else 0.0
        factors = np.exp(scale * rng.standard_normal((len(some), nodes)))
        given = _tried(newcomers, some, given, choose, factors)


def _tried(
    newcomers: Sequence[Newcomer], places: Sequence[int], given: list[float], choose: Choose, factors: Floats
) -> list[float]:
    """Place some workloads anew, one after another; undo that unless it is better, and worse for nobody.

    Args:
        places: positions of these workloads among the newcomers.
        given: what all newcomers have, as `_given` says.

    Returns:
        What all newcomers have after that.
    """
    some = [newcomers[place] for place in places]
    before = [[(one.node, one.size) for one in each.sizing.replicas[each.kept :]] for each in some]
    cost = _cost(some)
    for each in some:
        each.sizing.clear(each.kept)
    for each, dearer in zip(some, factors, strict=True):
        each.sizing.refresh()
        choose(each.sizing, dearer)
    # Most tries harm one of the few workloads that moved, so the others are asked only after these.
    if not _harmed(_given(some), [given[place] for place in places]):
        found = _given(newcomers)
        better = found.count(math.inf) > given.count(math.inf) or _cost(some) < cost * (1 - MIN_GAIN)
        if better and not _harmed(found, given):
            return found
    for each in some:
        each.sizing.clear(each.kept)
    for each, replicas in zip(some, before, strict=True):
        for node, size in replicas:
            each.sizing.add(node, size)
    return given


def _harmed(now: Sequence[float], before: Sequence[float]) -> bool:
    """Whether any workload has less than before."""
    return any(new < old for new, old in zip(now, before, strict=True))


def _given(newcomers: Sequence[Newcomer]) -> list[float]:
    """Performance beside the neighbours of now, work per second; infinite where the target is met."""
    for each in newcomers:
        each.sizing.refresh()
    return [math.inf if each.sizing.meets() else each.sizing.performance() for each in newcomers]


def _cost(some: Sequence[Newcomer]) -> float:
    return math.fsum(each.sizing.cost for each in some)
