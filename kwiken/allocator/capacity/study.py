"""Entry point of sizing: the cheapest replicas, nodes and reissues of a service that meet a p99 at a rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.capacity.documents import placement_of, plan_of
from kwiken.allocator.capacity.marginals import Marginal, marginals, slowest_stage
from kwiken.allocator.capacity.outcomes import (
    REISSUES_ONLY,
    REPLICAS_ONLY,
    SizeOutcome,
    checked,
    in_two_steps,
    reached,
    start_with_given,
)
from kwiken.allocator.capacity.pauses import observed_ms
from kwiken.allocator.capacity.search import FoundSizes, Search
from kwiken.allocator.capacity.settings import SizeSettings
from kwiken.allocator.capacity.supply import Sizes, Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import Verified, resampled_p99, verify
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.base.jobs import Spread
from kwiken.model.nodes.placement import Placement
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile
from kwiken.tail.queueing.load.decompose import load_model
from kwiken.tail.queueing.load.stage_model import LoadModel

MIN_REQUESTS: Final = 10  # requests below which no quantile is meaningful
FRONTIER_POINTS: Final = 8  # targets for which a frontier has sizes
MAX_FRONTIER_COST: Final = 2.0  # cost up to which a frontier goes, as a multiple of the answer's
MARGIN: Final = 0.15  # share of a target by which a p99 may be above and still count as within it
VERIFY_SEED: Final = 1_000_003  # added to the seed for the requests that the answer is verified on


class UnmetTargetError(InputError):
    """A target that no sizes in reach can meet.

    Args:
        message: the target, the nearest p99, and what bounds it.
        nearest_ms: the least verified p99 that was found, milliseconds.
    """

    def __init__(self, message: str, *, nearest_ms: float) -> None:
        super().__init__(message, where="target_p99")
        self.nearest_ms = nearest_ms


@dataclass(frozen=True)
class FrontierPoint:
    """Cheapest sizes that one way of searching found for some target.

    Attributes:
        p99_ms: p99 of whole requests in the trials, milliseconds.
        cost: cost of all replicas in an hour.
        sizes: size of each stage.
    """

    with_copies: bool
    p99_ms: float
    cost: float
    sizes: Sizes


@dataclass(frozen=True)
class SizeStudy:
    """A sizing with the findings behind it.

    Attributes:
        outcome: sizes, their cost and the verified latencies.
        resampled_ms: (resamples,) p99 of these sizes by other recordings of the same length, milliseconds.
        plain: the same sizes without copies, verified.
        plan: reissue policies that belong to the sizes.
        placement: places of the replicas; None without a cluster.
        marginals: what one unit more or less does at each stage.
        frontier: cost against p99; empty where it was not asked for.
        given: cheapest sizes with the reissues that would be planned for the replicas as recorded.
    """

    outcome: SizeOutcome
    resampled_ms: Floats
    plain: Verified
    plan: Plan
    placement: Placement | None
    marginals: Sequence[Marginal]
    frontier: Sequence[FrontierPoint]
    model: LoadModel
    search: Search
    given: Sizes | None

    @property
    def interval_ms(self) -> tuple[float, float]:
        """Interval of 95% of the p99 by other recordings of the same length, milliseconds."""
        low, high = np.quantile(self.resampled_ms, (0.025, 0.975), method="closest_observation")
        return float(low), float(high)

    @property
    def watched_s(self) -> float:
        """Time for which the replicas of all stages were watched for pauses, of all together, seconds."""
        return sum(observed_ms(self.outcome.trials.model).values()) / 1e3

    def probability(self, target_ms: float) -> float:
        """Share of the resampled recordings by which p99 is at most `MARGIN` above a target.

        Args:
            target_ms: p99 to reach, milliseconds.
        """
        return float((self.resampled_ms <= target_ms * (1 + MARGIN)).mean())


def study_size(profile: Profile, settings: SizeSettings, spread: Spread | None = None) -> SizeStudy:
    """Size a service: the cheapest replicas, nodes and reissues that meet a p99 at a rate.

    Args:
        profile: recorded requests, with busy times.
        settings: target, rate, nodes and budget.
        spread: function that runs jobs, for an engine that tries several sizes at once; None for none. The
            result is the same.

    Returns:
        The sizes with their documents. The target is met in the queueing simulator, on recorded requests that
        the search has not seen.

    Raises:
        UnmetTargetError: where nothing in reach meets the target; says the nearest and what bounds it.
        InputError: for a profile without busy times or with too few requests, unknown stages, classes of
            unknown speed, or nodes that cannot serve the rate at all.
    """
    if profile.requests < MIN_REQUESTS:
        raise InputError(
            f"a sizing needs at least {MIN_REQUESTS} requests, and the profile has {profile.requests}; "
            "trace the service for longer",
            where="profile",
        )
    names = [stage.name for stage in profile.stages]
    for name in settings.needs:
        if name not in names:
            raise InputError(
                f"stage {name!r} is not in the profile; it has: {', '.join(names)}", where="workloads"
            )
    model = load_model(
        profile, settings.queues, seed=settings.seed, copy_correlation=settings.copy_correlation
    )
    supply = Supply(names, settings.needs, settings.cluster)
    shares = costs(profile, settings.cost)
    trials = StageTrials(model, settings.rate_per_s, supply, seed=settings.seed)
    search = Search(trials, shares, settings.max_reissue, spread=spread)
    seed = settings.seed + VERIFY_SEED
    given = start_with_given(search)
    cheapest = in_two_steps(search, given)
    met, nearest = reached(trials, cheapest, settings.target_p99_ms, seed=seed)
    if met is None:
        raise _unmet(search, cheapest(0.0), nearest, settings)
    plain = verify(trials, met.sizes, seed=seed, copies=False)
    assert plain is not None  # without copies nothing overloads a stage
    return SizeStudy(
        outcome=met,
        resampled_ms=resampled_p99(trials, met.sizes, seed=seed),
        plain=plain,
        plan=plan_of(trials, met.sizes, shares, before=plain, after=met.verified, created=settings.created),
        placement=None
        if settings.cluster is None
        else placement_of(trials, met.sizes, verified=met.verified, target_ms=settings.target_p99_ms),
        marginals=marginals(search, met.sizes),
        frontier=_frontier(search, cheapest, met) if settings.frontier else (),
        model=model,
        search=search,
        given=given,
    )


def _frontier(
    search: Search, cheapest: Callable[[float], FoundSizes], met: SizeOutcome
) -> list[FrontierPoint]:
    """Cheapest sizes for targets up to the p99 of the cheapest sizes that serve at all, both ways."""
    points = []
    slowest = search.p99_ms(search.cheapest_start())
    alone, copies = search.only(REPLICAS_ONLY), search.only(REISSUES_ONLY)
    for with_copies, way in ((True, cheapest), (False, alone.cheapest)):
        least = alone.reach(MAX_FRONTIER_COST * met.cost)
        if with_copies:
            least = copies.least_p99(least.cost, least.sizes)
        goals = np.geomspace(least.p99_ms, max(slowest, least.p99_ms), FRONTIER_POINTS)
        found = [least, *(way(float(goal)) for goal in goals[1:])]
        if with_copies:
            found.append(search.found(met.sizes))
        kept: list[FrontierPoint] = []
        for one in sorted(found, key=lambda point: (point.cost, point.p99_ms)):
            if not kept or one.p99_ms < kept[-1].p99_ms:
                kept.append(FrontierPoint(with_copies, one.p99_ms, one.cost, one.sizes))
        points += kept
    return points


def _unmet(
    search: Search, least: FoundSizes, nearest: SizeOutcome | None, settings: SizeSettings
) -> UnmetTargetError:
    """Error that names the nearest p99 in reach, and what stands against a lower one.

    Args:
        least: sizes of the least p99 that the search knows.
        nearest: verified sizes of the least p99 on the way to the target; None for none.
    """
    outcome = checked(search.trials, least.sizes, seed=settings.seed + VERIFY_SEED)
    reach = [one for one in (nearest, outcome) if one is not None]
    best = min(reach, key=lambda one: one.p99_ms) if reach else None
    reason = _bound(search, least.sizes, settings)
    p99_ms = math.inf if best is None else best.p99_ms
    priced = settings.cluster is not None and settings.cluster.classes[0].cost_per_hour is not None
    cost = "" if best is None else f"{best.cost:.4g} {'an hour' if priced else 'cores'}"
    near = "" if best is None else f" the nearest is {_figure(p99_ms)} ms at a cost of {cost};"
    return UnmetTargetError(
        f"a p99 of {settings.target_p99_ms:g} ms cannot be met at {settings.rate_per_s:g} requests a second;"
        f"{near} {reason}",
        nearest_ms=p99_ms,
    )


def _figure(value_ms: float) -> str:
    """A time without an exponent, with four digits or all that stand before the point."""
    return f"{value_ms:.4g}" if value_ms < 1e4 else f"{value_ms:,.0f}"  # noqa: PLR2004 - five digits


def _bound(search: Search, sizes: Sizes, settings: SizeSettings) -> str:
    stage, excess_ms = slowest_stage(search, sizes)
    blocked = {
        one.forbidden
        for one in marginals(search, sizes)
        if one.forbidden and one.p99_change_ms < -search.min_gain_ms(sizes)
    }
    slow = f"the slowest requests lose most at stage {stage!r}, {_figure(excess_ms)} ms beyond its median"
    if "nodes" in blocked:
        return f"the nodes have no room for more or faster replicas that would help; {slow}"
    if "reissues" in blocked:
        return f"the budget of copies, {settings.max_reissue:.3g} of all work, is used up; {slow}"
    return (
        f"{slow}, by calls that are slow of themselves: replicas, nodes and copies within reach do not help"
    )
