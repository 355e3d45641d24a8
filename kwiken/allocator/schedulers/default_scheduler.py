"""Thrifty, the default scheduler: the cheapest of several placements, which are then improved together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from kwiken.allocator.placement.order import Newcomer
from kwiken.allocator.placement.own_nodes_trial import OwnNodesTrial
from kwiken.allocator.placement.quality import Contention, contention_on, node_scores
from kwiken.allocator.placement.shared_trial import SharedNodesTrial
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import Rank, by_cost, by_quality, offers_by_size, take, trim, walk
from kwiken.allocator.schedulers.priced_choice import priced_choices
from kwiken.base.arrays import Bools, Floats, Ints

BEST_OF_GROUP: Final = 3  # nodes of one class in one zone that are listed at least, by each rank
MIN_SHORTLIST: Final = 64  # nodes by each ranking
SEED: Final = 0  # the same placement each time
MAX_TRIES: Final = 400
TRIES_OF_PAIR: Final = 12  # for each pair of workloads, within `MAX_TRIES`
MAX_DEARER: Final = 0.5  # standard deviation of the logarithm of the random factors of cost
MIN_GAIN: Final = 1e-6  # relative, of cost
Choose = Callable[[Sizing, Floats], None]


# The first workload takes the best nodes, whatever they are worth to the others. So one or two workloads at
# a time give their nodes back and choose again, in turn, with nodes made dearer at random. What comes out
# is kept if it costs less; what runs already stays where it is.
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


@dataclass(frozen=True)
class ThriftyScheduler:
    """Quasar's walk, walks by performance for cost, and choices at prices of performance.

    The cheapest placement that meets the target is kept. Quality first, as the source has it, takes large and
    fast replicas, which are rarely the ones that perform most for their cost. Workloads that were placed one
    after another are then improved together.
    """

    name: str = "thrifty"

    def place(self, sizing: Sizing) -> None:
        """Keep what meets the target at the lowest cost, or else performs most."""
        everywhere = contention_on(sizing.request, sizing.ledger)
        contention = _shortlist(sizing, everywhere)
        trial, walks = _walks(sizing, contention)
        walks += [partial(put, trial, choice) for choice in priced_choices(sizing, contention)]
        met, chosen = _best(trial, walks)
        if not met and sizing.request.required > 0:
            kept = len(trial.replicas)
            walk(trial, by_quality, contention=everywhere)
            chosen = [(one.node, one.size) for one in trial.replicas[kept:]]
        for node, size in chosen:
            sizing.add(node, size)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the target is met as surely as asked."""
        return sizing.forecast().met

    def improve(self, newcomers: Sequence[Newcomer]) -> None:
        """Lower the cost of workloads that were placed one after another."""
        improve(newcomers, choose_by_price)


def choose_by_price(sizing: Sizing, dearer: Floats) -> None:
    """Place a workload by prices with some nodes made dearer; nothing where no choice meets the target.

    Args:
        dearer: (n,) factor of every node's cost, over all nodes of the cluster, above 0.
    """
    contention = _shortlist(sizing, contention_on(sizing.request, sizing.ledger))
    trial = _trial(sizing, contention)
    choices = priced_choices(sizing, contention, dearer)
    met, chosen = _best(trial, [partial(put, trial, choice) for choice in choices])
    for node, size in chosen if met else ():
        sizing.add(node, size)


def _best(trial: Sizing, ways: Iterable[Callable[[], None]]) -> tuple[bool, list[tuple[int, int]]]:
    """Try ways to place a workload, and take each back.

    Args:
        trial: replicas so far, to which each way adds others.

    Returns:
        Whether the best way meets the target, and the nodes and sizes of its replicas.
    """
    kept, best_met, best = len(trial.replicas), False, 0.0
    chosen: list[tuple[int, int]] = []
    for way in ways:
        way()
        met = trial.meets()
        # A met target at a low cost, else performance; best-effort work has no target.
        if met or not best_met:
            worth = -trial.cost if met else trial.performance()
            if (met, worth) > (best_met, best):
                best_met, best = met, worth
                chosen = [(one.node, one.size) for one in trial.replicas[kept:]]
        trial.clear(kept)
    return best_met, chosen


def _trial(sizing: Sizing, contention: Contention) -> Sizing:
    """Replicas to suppose beside those that there are."""
    if sizing.anti_affinity.shares_nodes:
        return SharedNodesTrial(sizing)
    return OwnNodesTrial(sizing, contention.nodes)


def _walks(sizing: Sizing, contention: Contention) -> tuple[Sizing, list[Callable[[], None]]]:
    """Walks by quality, and by cost for each largest size, with the replicas that they are made on.

    Where replicas may share a node, a walk changes what its next step finds there.
    """
    request, trial = sizing.request, _trial(sizing, contention)
    if not sizing.anti_affinity.shares_nodes:
        offers = offers_by_size(request, sizing.ledger, contention)
        return trial, [partial(take, trial, each) for each in offers]
    ranks: list[tuple[Rank, int | None]] = [(by_quality, None)]
    ranks += [(by_cost, largest) for largest in range(len(request.cores) - 1, -1, -1)]
    return trial, [partial(walk, trial, rank, largest, contention) for rank, largest in ranks]


def _shortlist(sizing: Sizing, found: Contention) -> Contention:
    """Nodes that are ranked best for the largest size that they take, by performance or by cost.

    Where a replica closes its zone, the best nodes may be too few, so that the best of each class in each
    zone are listed.

    Args:
        found: contention at present on all nodes.
    """
    request, ledger = sizing.request, sizing.ledger
    if len(found.nodes) <= MIN_SHORTLIST:
        return found
    scores = node_scores(request, ledger, found)
    groups = None
    if sizing.anti_affinity.closes_other_nodes:
        cluster = ledger.cluster
        groups = (cluster.zones * len(cluster.classes) + cluster.class_of)[found.nodes]
    length = min(max(MIN_SHORTLIST, 2 * len(request.efficiencies)), len(found.nodes))
    listed = np.zeros(len(found.nodes), dtype=np.bool_)
    for rank in (by_quality, by_cost):
        ranks = rank.of(request, scores)
        if groups is None:
            _mark_least(-ranks, length, listed)
        else:
            _mark_best_of_groups(ranks, groups, length, listed)
    return found.among(np.flatnonzero(listed))


def _mark_best_of_groups(ranks: Floats, groups: Ints, length: int, marked: Bools) -> None:
    """Mark the nodes of each group that rank best, as many of each; the first ones of equal ranks.

    Args:
        groups: (n,) number of each node's group, 0 or more.
        length: number of nodes to mark at least, if there are as many and they are spread evenly.
    """
    small = groups.astype(np.int16) if groups.max() <= np.iinfo(np.int16).max else groups  # sorted by radix
    order = np.argsort(-ranks, kind="stable")
    order = order[np.argsort(small[order], kind="stable")]
    ranked = groups[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(ranked)))  # of each node's group
    marked[order[np.arange(len(order)) - first < max(BEST_OF_GROUP, -(-length // len(starts)))]] = True


def _mark_least(values: Floats, count: int, marked: Bools) -> None:
    """Mark the least values, the first ones of equal values."""
    # Selection from the other end takes ten times as long where many nodes can take nothing.
    limit = np.partition(values, count - 1)[count - 1]
    below = values < limit
    marked |= below
    marked[np.flatnonzero(values == limit)[: count - int(np.count_nonzero(below))]] = True
