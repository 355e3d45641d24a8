"""Ways to size a service that are compared with `kwiken size`, each verified in the same simulator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kwiken.allocator.capacity.outcomes import (
    REISSUES_ONLY,
    REPLICAS_ONLY,
    SizeOutcome,
    cheapest_of,
    checked,
    reached,
    reissues_then_replicas,
    replicas_then_reissues,
)
from kwiken.allocator.capacity.search import FoundSizes, Search
from kwiken.allocator.capacity.supply import Sizes, StageSize
from kwiken.allocator.capacity.trials import StageTrials

# Common shares of the replicas' time in use that sizing in proportion to load tries.
ONE_SEARCH: Final = "one search with all levers"
PROPORTIONS: Final = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05)


@dataclass(frozen=True)
class Arm:
    """One way to size the service.

    Attributes:
        at_target: its cheapest sizes that meet the target; None where it found none.
        nearest: the least p99 that it came to on the way to the target; None where it met the target.
        at_cost: its least p99 at the cost of the answer of `kwiken size`; None where it cannot serve the
            calls at that cost.
    """

    name: str
    at_target: SizeOutcome | None
    nearest: SizeOutcome | None
    at_cost: SizeOutcome | None


def compared(
    search: Search, given: Sizes | None, answer: SizeOutcome, target_ms: float, *, seed: int
) -> list[Arm]:
    """The answer of `kwiken size` and its alternatives, at the same target and at the same cost.

    Args:
        search: search with all levers.
        given: cheapest sizes with the reissues planned for the replicas as recorded; None for no room.
        answer: answer of `kwiken size` for the target.
        target_ms: p99 to reach, milliseconds.
        seed: seed of the requests that answers are verified on.
    """
    cost = answer.cost
    alone, copies = search.only(REPLICAS_ONLY), search.only(REISSUES_ONLY)
    replicas_first = _replicas_then_reissues(search, target_ms, cost, seed)
    reissues_first = _reissues_then_replicas(search, given, target_ms, cost, seed)
    return [
        _both_orders(answer, replicas_first, reissues_first),
        _replicas_alone(alone, target_ms, cost, seed),
        _reissues_alone(copies, target_ms, cost, seed),
        replicas_first,
        reissues_first,
        _one_search(search, given, target_ms, cost, seed),
    ]


def _both_orders(answer: SizeOutcome, first: Arm, second: Arm) -> Arm:
    """The answer of `kwiken size`, and the less p99 of the two orders at its cost."""
    same = [answer, *(arm.at_cost for arm in (first, second) if arm.at_cost is not None)]
    return Arm("both orders", answer, None, min(same, key=lambda one: one.p99_ms))


def _one_search(search: Search, given: Sizes | None, target_ms: float, cost: float, seed: int) -> Arm:
    """One walk over replicas, nodes and reissues together, from two starts."""
    starts = [None] if given is None else [None, given]

    def cheapest(goal: float) -> FoundSizes:
        return cheapest_of([search.cheapest(goal, start) for start in starts], goal)

    met, nearest = reached(search.trials, cheapest, target_ms, seed=seed)
    within = [start for start in starts if start is None or search.supply.cost(start) <= cost]
    least = min((search.least_p99(cost, start) for start in within), key=lambda one: one.p99_ms)
    return Arm(ONE_SEARCH, met, nearest, checked(search.trials, least.sizes, seed=seed))


def _replicas_alone(alone: Search, target_ms: float, cost: float, seed: int) -> Arm:
    met, nearest = reached(alone.trials, alone.cheapest, target_ms, seed=seed)
    same = checked(alone.trials, alone.least_p99(cost).sizes, seed=seed)
    return Arm("replicas alone", met, nearest, same)


def _reissues_alone(copies: Search, target_ms: float, cost: float, seed: int) -> Arm:
    """Replicas in proportion to load, which is no search; reissues do the rest."""
    trials = copies.trials

    def cheapest(goal: float) -> FoundSizes:
        best = None
        for sizes in _proportional(copies):
            found = copies.cheapest(goal, sizes)
            if found.p99_ms <= goal:
                return found
            best = found if best is None or found.p99_ms < best.p99_ms else best
        assert best is not None
        return best

    met, nearest = reached(trials, cheapest, target_ms, seed=seed)
    within = [sizes for sizes in _proportional(copies) if trials.supply.cost(sizes) <= cost]
    same = None
    if within:
        same = checked(trials, copies.least_p99(cost, within[-1]).sizes, seed=seed)
    return Arm("reissues alone, replicas in proportion to load", met, nearest, same)


def _proportional(search: Search) -> Iterator[Sizes]:
    """Sizes of equally busy replicas on each stage's cheapest class, fewest replicas first."""
    start, trials = search.cheapest_start(), search.trials
    yield start
    for share in PROPORTIONS:
        sizes = tuple(
            replace(size, replicas=max(size.replicas, _count(trials, stage, size, share)))
            for stage, size in enumerate(start)
        )
        if trials.supply.fits(sizes):
            yield sizes


def _count(trials: StageTrials, stage: int, size: StageSize, share: float) -> int:
    return math.ceil(trials.busy_cores(stage, size.node_class) / share - 1e-9)


def _replicas_then_reissues(search: Search, target_ms: float, cost: float, seed: int) -> Arm:
    """Replicas for the target without copies; then copies on these replicas; then the trim."""
    alone, copies, trials = search.only(REPLICAS_ONLY), search.only(REISSUES_ONLY), search.trials
    met, nearest = reached(trials, lambda goal: replicas_then_reissues(search, goal), target_ms, seed=seed)
    same = checked(trials, copies.least_p99(cost, alone.least_p99(cost).sizes).sizes, seed=seed)
    return Arm("replicas, then reissues, trimmed", met, nearest, same)


def _reissues_then_replicas(
    search: Search, given: Sizes | None, target_ms: float, cost: float, seed: int
) -> Arm:
    """Reissues planned on the replicas as recorded; then replicas for the target; then the trim."""
    name = "reissues, then replicas, trimmed"
    if given is None:
        return Arm(name, None, None, None)
    alone, trials = search.only(REPLICAS_ONLY), search.trials
    met, nearest = reached(
        trials, lambda goal: reissues_then_replicas(search, given, goal), target_ms, seed=seed
    )
    same = None
    if trials.supply.cost(given) <= cost:
        same = checked(trials, alone.least_p99(cost, given).sizes, seed=seed)
    return Arm(name, met, nearest, same)
