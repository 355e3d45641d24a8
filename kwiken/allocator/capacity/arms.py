"""Ways to size a service that are compared with the joint search, each verified in the same simulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from kwiken.allocator.capacity.search import Found, Levers, Search
from kwiken.allocator.capacity.supply import Sizes, StageSize
from kwiken.allocator.capacity.trials import FIXED_LEVEL, StageTrials
from kwiken.allocator.capacity.verification import Verified, verify
from kwiken.model.service import Reissue

MAX_ROUNDS: Final = 5  # searches whose goal is corrected by what the whole service did
NEAR: Final = 0.97  # share of the target above which a verified p99 is not brought nearer
MAX_RELAXED: Final = 1.1  # factor by which one round may raise the goal
REPLICAS_ONLY: Final = Levers(reissues=False)
REISSUES_ONLY: Final = Levers(replicas=False, classes=False)
# Common shares of the replicas' time in use that sizing in proportion to load tries.
PROPORTIONS: Final = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05)


@dataclass(frozen=True)
class Outcome:
    """Sizes with their verified effect.

    Attributes:
        sizes: size of each stage.
        cost: cost of all replicas in an hour.
    """

    sizes: Sizes
    cost: float
    verified: Verified
    trials: StageTrials

    @property
    def p99_ms(self) -> float:
        """p99 of whole requests, milliseconds."""
        return self.verified.p99_ms


@dataclass(frozen=True)
class Arm:
    """One way to size the service.

    Attributes:
        at_target: its cheapest sizes that meet the target; None where it found none.
        nearest: the least p99 that it came to on the way to the target; None where it met the target.
        at_cost: its least p99 at the joint answer's cost; None where it cannot serve the calls at that cost.
    """

    name: str
    at_target: Outcome | None
    nearest: Outcome | None
    at_cost: Outcome | None


def reached(
    trials: StageTrials, cheapest: Callable[[float], Found], target_ms: float, *, seed: int
) -> tuple[Outcome | None, Outcome | None]:
    """Cheapest sizes whose p99 meets the target in the simulation of the whole service.

    The trials leave out that parents shift arrivals, and their p99 is that of the requests that were searched
    on. So the goal of the search is corrected by the ratio of the verified p99, and the search is repeated.

    Args:
        cheapest: function that searches for the cheapest sizes that meet a goal in the trials, milliseconds.
        target_ms: p99 to reach, milliseconds.

    Returns:
        The cheapest verified sizes, or None; and, where there are none, the verified sizes of the least p99.
    """
    goal, met, nearest = target_ms, None, None
    tried: set[Sizes] = set()
    for _ in range(MAX_ROUNDS):
        found = cheapest(goal)
        outcome = None if found.sizes in tried else checked(trials, found.sizes, seed=seed)
        if outcome is None:
            break
        tried.add(found.sizes)
        if outcome.p99_ms > target_ms:
            nearest = outcome if nearest is None or outcome.p99_ms < nearest.p99_ms else nearest
            if found.p99_ms > goal:
                break  # the trials know nothing better
            goal = min(goal, found.p99_ms) * target_ms / outcome.p99_ms
        else:
            met = outcome if met is None or outcome.cost < met.cost else met
            if outcome.p99_ms > NEAR * target_ms or nearest is not None:
                break
            goal *= min(MAX_RELAXED, target_ms / outcome.p99_ms)
    return met, nearest if met is None else None


def checked(trials: StageTrials, sizes: Sizes, *, seed: int) -> Outcome | None:
    """Sizes with their verified effect; None where copies overload a stage."""
    verified = verify(trials, sizes, seed=seed)
    return None if verified is None else Outcome(sizes, trials.supply.cost(sizes), verified, trials)


def compared(
    search: Search, given: Sizes | None, answer: Outcome, target_ms: float, *, seed: int
) -> list[Arm]:
    """The joint search and its alternatives, at the same target and at the same cost.

    Args:
        search: search with all levers.
        answer: the joint search's answer for the target.
        target_ms: p99 to reach, milliseconds.
    """
    cost = answer.cost
    alone, copies = search.only(REPLICAS_ONLY), search.only(REISSUES_ONLY)
    return [
        _together(search, given, answer, seed),
        _replicas_alone(alone, target_ms, cost, seed),
        _reissues_alone(copies, target_ms, cost, seed),
        _replicas_then_reissues(alone, copies, target_ms, cost, seed),
        _reissues_then_replicas(alone, given, target_ms, cost, seed),
    ]


def _together(search: Search, given: Sizes | None, answer: Outcome, seed: int) -> Arm:
    starts = [None] if given is None or search.supply.cost(given) > answer.cost else [None, given]
    found = min((search.least_p99(answer.cost, start) for start in starts), key=lambda one: one.p99_ms)
    same = checked(search.trials, found.sizes, seed=seed)
    if same is None or answer.p99_ms < same.p99_ms:
        same = answer
    return Arm("together", answer, None, same)


def _replicas_alone(alone: Search, target_ms: float, cost: float, seed: int) -> Arm:
    met, nearest = reached(alone.trials, alone.cheapest, target_ms, seed=seed)
    same = checked(alone.trials, alone.least_p99(cost).sizes, seed=seed)
    return Arm("replicas alone", met, nearest, same)


def _reissues_alone(copies: Search, target_ms: float, cost: float, seed: int) -> Arm:
    """Replicas in proportion to load, which is no search; reissues do the rest."""
    trials = copies.trials

    def cheapest(goal: float) -> Found:
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


def _replicas_then_reissues(alone: Search, copies: Search, target_ms: float, cost: float, seed: int) -> Arm:
    """Replicas for the target without copies; then copies on these replicas."""
    trials = alone.trials
    met, nearest = reached(trials, alone.cheapest, target_ms, seed=seed)
    with_copies = [
        None if one is None else checked(trials, copies.least_p99(one.cost, one.sizes).sizes, seed=seed)
        for one in (met, nearest)
    ]
    same = checked(trials, copies.least_p99(cost, alone.least_p99(cost).sizes).sizes, seed=seed)
    first, second = with_copies
    if first is None and second is not None and second.p99_ms <= target_ms:
        first, second = second, None
    return Arm("replicas, then reissues", first, second, same)


def _reissues_then_replicas(
    alone: Search, given: Sizes | None, target_ms: float, cost: float, seed: int
) -> Arm:
    """Reissues planned on the replicas as recorded, and kept; then replicas for the target."""
    name = "reissues, then replicas"
    if given is None:
        return Arm(name, None, None, None)
    trials = alone.trials
    met, nearest = reached(trials, lambda goal: alone.cheapest(goal, given), target_ms, seed=seed)
    same = None
    if trials.supply.cost(given) <= cost:
        same = checked(trials, alone.least_p99(cost, given).sizes, seed=seed)
    return Arm(name, met, nearest, same)


def start_with_given(search: Search) -> Sizes | None:
    """Cheapest sizes with the reissues that would be planned for the replicas as recorded.

    The policies become those of `FIXED_LEVEL` in the search's trials. Their time-outs are shorter than those
    for few replicas, whose queues are longer, and may suit a cheaper service better.

    Returns:
        The sizes; None where the nodes have no room for the recorded replicas.
    """
    trials, recorded = search.trials, _recorded(search)
    if not trials.supply.fits(recorded):
        return None
    planned = search.only(REISSUES_ONLY).least_p99(trials.supply.cost(recorded), recorded).sizes
    policies: dict[int, Reissue] = {}
    for stage, size in enumerate(planned):
        policy = trials.policy(stage, size)
        if policy is not None:
            policies[stage] = policy
    trials.give(policies)
    return tuple(
        replace(size, level=FIXED_LEVEL if stage in policies and size.replicas != 1 else 0)
        for stage, size in enumerate(search.cheapest_start())
    )


def joint(search: Search, given: Sizes | None) -> Callable[[float], Found]:
    """Function that finds the cheapest sizes for a goal, the cheaper of two searches.

    Args:
        search: search with all levers.
        given: sizes of `start_with_given`, from which the second search starts; None for no second one.
    """

    def cheapest(goal: float) -> Found:
        found = [search.cheapest(goal)]
        if given is not None:
            found.append(search.cheapest(goal, given))
        met = [one for one in found if one.p99_ms <= goal]
        if met:
            return min(met, key=lambda one: (one.cost, one.p99_ms))
        return min(found, key=lambda one: one.p99_ms)

    return cheapest


def _recorded(search: Search) -> Sizes:
    """Replicas as recorded, scaled with the rate, on each stage's cheapest class."""
    trials = search.trials
    factor = trials.rate_per_s / trials.model.rate_per_s
    sizes = []
    for stage, size in enumerate(search.cheapest_start()):
        seen = trials.model.stages[trials.names[stage]].station.replicas
        count = size.replicas if seen is None else max(size.replicas, math.ceil(seen * factor - 1e-9))
        sizes.append(replace(size, replicas=count))
    return tuple(sizes)
