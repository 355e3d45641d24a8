"""Load guard: utilisation above which copies make a stage's tail latency worse.

A copy takes server time from other calls. While servers are mostly idle this costs nothing; above some load
the added waiting outweighs the gain of the late call. For exponential work, copies of every call and no
cancellation the threshold is a third of the servers' time (Vulimiri et al., CoNEXT 2013); for few, late and
cancelled copies it is far higher. Each stage and policy has a threshold of its own, found by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import percentile
from kwiken.model.plan.plan import Plan
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.load.simulate import policies_of, reissuing, simulate_load
from kwiken.tail.queueing.load.stage_model import LoadModel, StageModel
from kwiken.tail.queueing.simulator.network import poisson_arrivals, simulate_queues
from kwiken.tail.queueing.simulator.race import UnstableStageError
from kwiken.tail.queueing.simulator.station import Station

MAX_UTILISATION: Final = 0.95  # share of the servers' time up to which thresholds are searched
MIN_ADDED_UTILISATION: Final = 0.05  # lower end of the search, above what background work takes
UTILISATION_STEP: Final = 0.04  # width at which the bisection ends: chance moves the threshold by more
CALLS_PER_COMPARISON: Final = 60_000  # calls of one stage in one comparison: p99 rests on 600 of them
MAX_CALLS: Final = 600_000  # calls of all comparisons at the planned load
# calls of all comparisons of a search for thresholds: more do not sharpen them, ...
MAX_SEARCH_CALLS: Final = 240_000
MIN_CALLS: Final = 15_000  # ... and fewer calls per comparison overestimate some thresholds
FIRST_CALLS: Final = 5000  # calls of a first, cheap comparison
CLEAR_CHANGE: Final = (
    0.05  # relative change of both p99 and the mean beyond it for which that comparison suffices
)
QUIET: Final = 0.1  # share of the replicas' time below which queues do not matter to a copy
REQUESTS_PER_COMPARISON: Final = 10_000  # whole requests in one comparison
MAX_REQUEST_CALLS: Final = 600_000  # calls of all stages in one comparison at whole requests
MAX_CHANCE_RISE: Final = 0.01  # relative rise of p99 attributed to chance


@dataclass(frozen=True)
class Guard:
    """Threshold of one stage above which its copies hurt.

    Attributes:
        utilisation: share of the replicas' time in use at the given load, without copies.
        above: utilisation, as a share of the replicas' time, from which copies make the stage's tail worse
            (see `tail_hurts`); None where they do not up to `MAX_UTILISATION`.
    """

    utilisation: float
    above: float | None


@dataclass(frozen=True)
class CopyEffect:
    """One stage simulated at one load, with its copies and without.

    Attributes:
        alone_ms: (n,) latency of the stage without copies.
        raced_ms: (n,) latency with copies; None where the replicas cannot serve the copies.
        extra_load: work of copies, as a share of the work of calls.
    """

    alone_ms: Floats
    raced_ms: Floats | None
    extra_load: float

    @property
    def hurts(self) -> bool:
        """Whether copies make the tail worse."""
        return self.raced_ms is None or tail_hurts(self.alone_ms, self.raced_ms)

    @property
    def clear(self) -> bool:
        """Whether the change of the tail exceeds `CLEAR_CHANGE`, so that few calls prove its sign."""
        return self.changes_by(CLEAR_CHANGE)

    def changes_by(self, least: float) -> bool:
        """Whether both p99 and the mean beyond it change by more than a share.

        Args:
            least: smallest relative change, as a share of the value without copies.
        """
        if self.raced_ms is None:
            return True
        pairs = zip(_tail(self.alone_ms), _tail(self.raced_ms), strict=True)
        return all(abs(raced - alone) > least * alone for alone, raced in pairs)


def tail_hurts(alone_ms: Floats, raced_ms: Floats) -> bool:
    """Whether copies make a tail worse: p99 rises, and the mean of the latencies beyond it does not fall.

    Copies of fewer than 1% of the calls cannot lower p99, only latencies beyond it; so p99 alone does not
    decide.

    Args:
        alone_ms: (n,) latencies without copies.
        raced_ms: (n,) latencies with copies.
    """
    (p99, beyond), (raced_p99, raced_beyond) = _tail(alone_ms), _tail(raced_ms)
    return raced_p99 > p99 * (1 + MAX_CHANCE_RISE) and raced_beyond > beyond


def _tail(latency_ms: Floats) -> tuple[float, float]:
    p99 = percentile(latency_ms, 99)
    return p99, float(latency_ms[latency_ms >= p99].mean())


def copy_effect(
    model: StageModel,
    policy: Reissue,
    *,
    factor: float,
    seed: int = 0,
    calls: int | None = None,
    alone_ms: Floats | None = None,
) -> CopyEffect:
    """Simulate a policy at its stage alone, at `factor` times the profile's load.

    Visits are a Poisson process; the runs with and without copies share all other draws.

    Args:
        model: load model of the stage; its stage must have replicas.
        factor: load as a multiple of the profile's; above 0.
        seed: seed of all draws.
        calls: number of calls to simulate; `CALLS_PER_COMPARISON` by default.
        alone_ms: (n,) latencies without copies at the same load, seed and calls, where they are known.
    """
    rows = np.flatnonzero(~np.isnan(model.rest_ms).all(axis=1))
    width = float((~np.isnan(model.rest_ms[rows])).sum(axis=1).mean())
    visits = max(1000, int((calls or CALLS_PER_COMPARISON) / width))
    arriving, choosing, working = np.random.default_rng([seed, 2]).spawn(3)
    arrivals = poisson_arrivals(model.visits_per_s * factor, visits, arriving)
    primaries = model.primaries(rows[choosing.integers(len(rows), size=visits)], working)

    def run(station: Station) -> tuple[Floats, float]:
        found = simulate_queues(
            [station],
            arrivals,
            rng=np.random.default_rng([seed, 3]),
            given={station.name: primaries},
            warm_up=visits // 10,
        )
        return found.latency_ms, found.stages[station.name].extra_load

    station = replace(model.station, after=())
    alone = run(station)[0] if alone_ms is None else alone_ms
    try:
        return CopyEffect(alone, *run(reissuing(station, policy)))
    except UnstableStageError:
        return CopyEffect(alone, None, math.inf)


def guard(
    model: StageModel,
    policy: Reissue,
    *,
    factor: float = 1.0,
    seed: int = 0,
    calls: int | None = None,
    hurts: bool | None = None,
) -> Guard:
    """Find the utilisation from which a policy hurts its stage (Vulimiri et al. 2013).

    Args:
        model: load model of the stage; its stage must have replicas.
        factor: load at which the stage's utilisation is reported, as a multiple of the profile's.
        seed: seed of all draws.
        calls: number of calls per comparison; see `copy_effect`.
        hurts: whether the policy hurts at `factor`, where that is known: only the other side is searched
            then.
    """
    low, high, here = model.busy_at(0.0) + MIN_ADDED_UTILISATION, MAX_UTILISATION, model.busy_at(factor)
    known: dict[float, bool] = {}
    if hurts is not None and low < here < high:
        known[here] = hurts
        low, high = (low, here) if hurts else (here, high)

    def bad(used: float) -> bool:
        if used in known:
            return known[used]
        return _hurts(model, policy, model.factor_at(used), seed, calls or CALLS_PER_COMPARISON)

    return Guard(here, _first_bad(bad, low, high))


def _hurts(model: StageModel, policy: Reissue, factor: float, seed: int, calls: int) -> bool:
    """Whether copies hurt at a load; a cheap comparison decides where the change is clear.

    Overloaded queues are slow to simulate: each cancelled attempt moves all that queue behind it.
    """
    if calls > MIN_CALLS:
        few = copy_effect(model, policy, factor=factor, seed=seed, calls=FIRST_CALLS)
        if few.clear:
            return few.hurts
    return copy_effect(model, policy, factor=factor, seed=seed, calls=calls).hurts


def guards(
    model: LoadModel,
    policies: Mapping[str, Reissue],
    *,
    factor: float = 1.0,
    seed: int = 0,
    busiest: int | None = None,
    hurts: Mapping[str, bool] | None = None,
) -> dict[str, Guard]:
    """Find the threshold of each stage's policy.

    Args:
        factor: load at which utilisations are reported, as a multiple of the profile's.
        seed: seed of all draws.
        busiest: number of stages to search, the busiest at `factor` first; None for all. Other stages are
            left out of the result.
        hurts: by stage: whether its policy hurts at `factor`, where that is known.

    Returns:
        Thresholds by stage, busiest first. Stages without replicas are left out, and so are stages still
        below `QUIET` when another stage reaches `MAX_UTILISATION`.
    """
    most = highest_load(model)
    acted_on = [
        name
        for name in policies
        if model.stages[name].station.replicas is not None and model.stages[name].busy_at(most) >= QUIET
    ]
    chosen = sorted(acted_on, key=lambda name: model.stages[name].busy_at(factor), reverse=True)[:busiest]
    calls = calls_each(len(acted_on), MAX_SEARCH_CALLS)
    return {
        name: guard(
            model.stages[name],
            policies[name],
            factor=factor,
            seed=seed,
            calls=calls,
            hurts=(hurts or {}).get(name),
        )
        for name in chosen
    }


def calls_each(stages: int, of_all: int = MAX_CALLS) -> int:
    """Number of calls per comparison, where so many stages share a bound on the calls of all comparisons."""
    return min(CALLS_PER_COMPARISON, max(MIN_CALLS, of_all // max(1, stages)))


def highest_load(model: LoadModel) -> float:
    """Load, as a multiple of the profile's, at which the busiest stage reaches `MAX_UTILISATION`."""
    return min(stage.factor_at(MAX_UTILISATION) for stage in model.stages.values())


def plan_hurts_above(model: LoadModel, plan: Plan, *, seed: int = 0) -> float | None:
    """Load, as a factor of the profile's, from which a plan makes the tail of whole requests worse.

    Args:
        seed: seed of all draws.

    Returns:
        None where the plan does not hurt up to `MAX_UTILISATION` of the busiest stage, or where none of the
        stages that it reissues has replicas in the model.
    """
    policies = policies_of(model, plan)
    if all(model.stages[name].station.replicas is None for name in policies):
        return None
    requests = int(
        min(REQUESTS_PER_COMPARISON, max(1000, MAX_REQUEST_CALLS / max(model.calls_per_request, 1.0)))
    )
    most = highest_load(model)
    least = min(stage.factor_at(MIN_ADDED_UTILISATION) for stage in model.stages.values())

    def hurts(factor: float) -> bool:
        try:
            found = simulate_load(model, plan, factor=factor, requests=requests, seed=seed)
        except UnstableStageError:
            return True
        return tail_hurts(found.before_ms, found.after_ms)

    return _first_bad(hurts, max(least, most * MIN_ADDED_UTILISATION), most, fine=most * UTILISATION_STEP)


def _first_bad(
    bad: Callable[[float], bool], low: float, high: float, *, fine: float = UTILISATION_STEP
) -> float | None:
    """Smallest value that is bad, by bisection to within `fine`; None where not even `high` is bad."""
    if low >= high or not bad(high):
        return None
    if bad(low):
        return low
    while high - low > fine:
        middle = (low + high) / 2
        if bad(middle):
            high = middle
        else:
            low = middle
    return high
