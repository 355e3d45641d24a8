"""Outcome of a search for sizes: verified in a simulation of the whole service, which corrects the goal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kwiken.allocator.capacity.search import FoundSizes, Search, SizeLevers
from kwiken.allocator.capacity.supply import Sizes
from kwiken.allocator.capacity.trials import FIXED_LEVEL, StageTrials
from kwiken.allocator.capacity.verification import Verified, verify
from kwiken.model.service.stage import Reissue

MAX_ROUNDS: Final = 5  # searches whose goal is corrected by what the whole service did
NEAR: Final = 0.97  # share of the target above which a verified p99 is not brought nearer
MAX_RELAXED: Final = 1.1  # factor by which one round may raise the goal
REPLICAS_ONLY: Final = SizeLevers(reissues=False)
REISSUES_ONLY: Final = SizeLevers(replicas=False, classes=False)


@dataclass(frozen=True)
class SizeOutcome:
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


def reached(
    trials: StageTrials, cheapest: Callable[[float], FoundSizes], target_ms: float, *, seed: int
) -> tuple[SizeOutcome | None, SizeOutcome | None]:
    """Cheapest sizes whose p99 meets the target in the simulation of the whole service.

    The trials leave out that parents shift arrivals, and their p99 is that of the recorded requests that were
    searched on, which show these sizes better than others would. So the goal of the search gets a margin, the
    ratio of the verified p99 to that of the trials, and the search is repeated.
    Where the trials know nothing that meets the goal, there are two cases:

    1. They may be too pessimistic. The sizes of their least p99 are verified once; where those meet the
       target, the goal becomes that p99 in the trials, raised by what the target leaves.
    2. Otherwise nothing in reach meets the target.

    Args:
        trials: simulated stages, of which the sizes are verified.
        cheapest: function that searches for the cheapest sizes that meet a goal in the trials, milliseconds.
        target_ms: p99 to reach, milliseconds.
        seed: seed of the requests that sizes are verified on.

    Returns:
        The cheapest verified sizes, or None; and, where there are none, the verified sizes of the least p99.
    """
    goal, met, nearest, pessimistic = target_ms, None, None, False
    tried: set[Sizes] = set()
    for _ in range(MAX_ROUNDS):
        found = cheapest(goal)
        outcome = None if found.sizes in tried else checked(trials, found.sizes, seed=seed)
        if outcome is None:
            break
        tried.add(found.sizes)
        if outcome.p99_ms > target_ms:
            nearest = outcome if nearest is None or outcome.p99_ms < nearest.p99_ms else nearest
            if found.p99_ms <= goal:
                goal = found.p99_ms * target_ms / outcome.p99_ms
            elif pessimistic:
                break
            else:
                goal, pessimistic = 0.0, True  # case 1: the least p99 that the trials know
        else:
            met = outcome if met is None or outcome.cost < met.cost else met
            if outcome.p99_ms > NEAR * target_ms or (nearest is not None and not pessimistic):
                break
            goal = max(goal, found.p99_ms) * min(MAX_RELAXED, target_ms / outcome.p99_ms)
    return met, nearest if met is None else None


def checked(trials: StageTrials, sizes: Sizes, *, seed: int) -> SizeOutcome | None:
    """Sizes with their verified effect; None where copies overload a stage."""
    verified = verify(trials, sizes, seed=seed)
    return None if verified is None else SizeOutcome(sizes, trials.supply.cost(sizes), verified, trials)


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
    sizes = []
    for stage, size in enumerate(search.cheapest_start()):
        copied = replace(size, level=FIXED_LEVEL)
        # The fewest replicas may serve the calls, and not the copies of them.
        possible = stage in policies and size.replicas != 1 and trials.trial(stage, copied) is not None
        sizes.append(copied if possible else replace(size, level=0))
    return tuple(sizes)


def in_two_steps(search: Search, given: Sizes | None) -> Callable[[float], FoundSizes]:
    """Function that finds the cheapest sizes for a goal, the cheaper of two orders.

    1. Replicas for the goal without copies; then copies on these replicas; then a trim of what the goal does
       not need.
    2. Copies as planned for the replicas as recorded; then replicas for the goal; then the same trim.

    Args:
        search: search with all levers, which trims.
        given: sizes of `start_with_given`, from which the second order starts; None to leave it out.
    """

    def cheapest(goal: float) -> FoundSizes:
        found = [replicas_then_reissues(search, goal)]
        if given is not None:
            found.append(reissues_then_replicas(search, given, goal))
        return cheapest_of(found, goal)

    return cheapest


def replicas_then_reissues(search: Search, goal_ms: float) -> FoundSizes:
    """Replicas for a goal without copies; then copies on these replicas; then the trim.

    Args:
        search: search with all levers, which trims.
        goal_ms: p99 to reach in the trials, milliseconds.
    """
    replicas = search.only(REPLICAS_ONLY).cheapest(goal_ms)
    copied = search.only(REISSUES_ONLY).least_p99(replicas.cost, replicas.sizes)
    return search.trim(copied, goal_ms)


def reissues_then_replicas(search: Search, given: Sizes, goal_ms: float) -> FoundSizes:
    """Replicas for a goal beside copies that were planned; then the trim.

    Args:
        search: search with all levers, which trims.
        given: sizes of `start_with_given`, with the copies.
        goal_ms: p99 to reach in the trials, milliseconds.
    """
    return search.trim(search.only(REPLICAS_ONLY).cheapest(goal_ms, given), goal_ms)


def cheapest_of(found: Sequence[FoundSizes], goal_ms: float) -> FoundSizes:
    """The cheapest of the sizes that meet a goal; those of the least p99 where none does.

    Args:
        found: sizes to choose from, at least one.
        goal_ms: p99 to reach in the trials, milliseconds.
    """
    met = [one for one in found if one.p99_ms <= goal_ms]
    if met:
        return min(met, key=lambda one: (one.cost, one.p99_ms))
    return min(found, key=lambda one: one.p99_ms)


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
