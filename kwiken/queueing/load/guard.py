"""Where reissues hurt: the load from which copies make the tail longer than it would be without them.

A copy takes a server's time from others. While servers are mostly idle nobody notices; from some load on
what the others wait outweighs what the late call wins. For exponential work, copies of everything and
no cancellation the threshold is a third of the servers' time (Vulimiri et al., CoNEXT 2013); for late
copies, few and cancelled, it lies far higher. Every stage and policy has its own, found by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.arrays import Floats
from kwiken.plan import Plan
from kwiken.queueing.load.simulate import policies_of, reissuing, simulate_load
from kwiken.queueing.load.stage_model import LoadModel, StageModel
from kwiken.queueing.simulator import OverloadError, Station, poisson_arrivals, simulate_queues
from kwiken.service import Reissue

BUSIEST: Final = 0.95  # share of the servers' time up to which is looked
IDLEST: Final = 0.05  # and from which on
FINE: Final = 0.04  # share of the servers' time to within which it is found: chance moves it by more
CALLS: Final = 60_000  # of one stage, in one look: p99 rests on 600 of them
ALL_CALLS: Final = 600_000  # of all stages that are looked at in turn at the load planned for ...
SEARCH_CALLS: Final = 240_000  # ... and while thresholds are searched: more calls make these no surer, ...
MIN_CALLS_FOR_CURVE: Final = 15_000  # ... and fewer would find some too high
SCOUT: Final = 5000  # calls of a first look,
PLAIN: Final = 0.05  # which suffices where p99 and the mean beyond it both change by more, relatively
QUIET: Final = 0.1  # share of the replicas' time below which queues do not matter to a copy
REQUESTS: Final = 10_000  # whole requests in one look
MOST_CALLS: Final = 600_000  # of all stages, in one look at whole requests
NOISE: Final = 0.01  # relative rise of p99 that chance might make


@dataclass(frozen=True)
class Guard:
    """From where on a stage's copies hurt.

    Attributes:
        utilisation: share of its replicas' time that is used without copies.
        above: the same share from which on copies make the stage's tail worse (`tail_hurts`); None where
            they do not up to `BUSIEST`.
    """

    utilisation: float
    above: float | None


@dataclass(frozen=True)
class Look:
    """One stage at one load, with its copies and without.

    Attributes:
        alone_ms: (n,) latency of the stage without copies.
        raced_ms: (n,) with them; None where the replicas cannot serve them.
        extra_load: work that copies caused, as a share of that of calls.
    """

    alone_ms: Floats
    raced_ms: Floats | None
    extra_load: float

    @property
    def hurts(self) -> bool:
        """Whether copies make the tail worse."""
        return self.raced_ms is None or tail_hurts(self.alone_ms, self.raced_ms)

    @property
    def plain(self) -> bool:
        """Whether copies change the tail by so much that few calls show which way."""
        return self.changes_by(PLAIN)

    def changes_by(self, least: float) -> bool:
        """Whether p99 and the mean beyond it both change by more than that.

        Args:
            least: share of each.
        """
        if self.raced_ms is None:
            return True
        pairs = zip(_tail(self.alone_ms), _tail(self.raced_ms), strict=True)
        return all(abs(raced - alone) > least * alone for alone, raced in pairs)


def tail_hurts(alone_ms: Floats, raced_ms: Floats) -> bool:
    """Whether copies make a tail worse: p99 rises, and the mean of what is slower does not fall.

    Copies of fewer than 1% of the calls cannot lower p99, only what lies beyond; so p99 alone will not do.

    Args:
        alone_ms: (n,) latencies without copies.
        raced_ms: (n,) with them.
    """
    (p99, beyond), (raced_p99, raced_beyond) = _tail(alone_ms), _tail(raced_ms)
    return raced_p99 > p99 * (1 + NOISE) and raced_beyond > beyond


def _tail(latency_ms: Floats) -> tuple[float, float]:
    p99 = float(np.percentile(latency_ms, 99))
    return p99, float(latency_ms[latency_ms >= p99].mean())


def look(
    model: StageModel,
    policy: Reissue,
    *,
    factor: float,
    seed: int = 0,
    calls: int | None = None,
    alone_ms: Floats | None = None,
) -> Look:
    """Try a policy at its stage alone, at `factor` times the profile's load.

    Visits are Poisson; both arms share all that the policy does not change.

    Args:
        model: of the stage; load must act on it.
        policy: its reissues.
        factor: the load, times the profile's.
        seed: of all draws.
        calls: how many to try it on; by default `CALLS`.
        alone_ms: (n,) what the arm without copies gave at the same load, seed and calls, where it is known.
    """
    rows = np.flatnonzero(~np.isnan(model.rest_ms).all(axis=1))
    width = float((~np.isnan(model.rest_ms[rows])).sum(axis=1).mean())
    visits = max(1000, int((calls or CALLS) / width))
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
        return Look(alone, *run(reissuing(station, policy)))
    except OverloadError:
        return Look(alone, None, math.inf)


def guard(
    model: StageModel,
    policy: Reissue,
    *,
    factor: float = 1.0,
    seed: int = 0,
    calls: int | None = None,
    hurts: bool | None = None,
) -> Guard:
    """From where on a policy hurts its stage (Vulimiri et al. 2013).

    Args:
        model: of the stage; load must act on it.
        policy: its reissues.
        factor: the load at which its utilisation is told, in the profile's.
        seed: of all draws.
        calls: as `look` takes it.
        hurts: whether it does at that load, where that is known: then the other side alone is searched.
    """
    low, high, here = model.busy_at(0.0) + IDLEST, BUSIEST, model.busy_at(factor)
    known: dict[float, bool] = {}
    if hurts is not None and low < here < high:
        known[here] = hurts
        low, high = (low, here) if hurts else (here, high)

    def bad(used: float) -> bool:
        if used in known:
            return known[used]
        return _hurts(model, policy, model.factor_at(used), seed, calls or CALLS)

    return Guard(here, _first_bad(bad, low, high))


def _hurts(model: StageModel, policy: Reissue, factor: float, seed: int, calls: int) -> bool:
    """Whether copies hurt at that load; where they plainly do, or plainly do not, few calls show it.

    Overloaded queues are slow to simulate, since every loser that is taken out moves all behind it.
    """
    if calls > MIN_CALLS_FOR_CURVE:
        few = look(model, policy, factor=factor, seed=seed, calls=SCOUT)
        if few.plain:
            return few.hurts
    return look(model, policy, factor=factor, seed=seed, calls=calls).hurts


def guards(
    model: LoadModel,
    policies: Mapping[str, Reissue],
    *,
    factor: float = 1.0,
    seed: int = 0,
    busiest: int | None = None,
    hurts: Mapping[str, bool] | None = None,
) -> dict[str, Guard]:
    """From where on each stage's policy hurts it.

    Args:
        model: of the profile.
        policies: reissues by stage.
        factor: the load at which utilisations are told, in the profile's.
        seed: of all draws.
        busiest: how many stages to search, the busiest at `factor`; None for all. Nothing is known of the
            others, which are left out.
        hurts: by stage: whether its policy does at `factor`, where that is known.

    Returns:
        Of the stages on which load acts, the busiest first; without those that are still quiet when another
        one is used `BUSIEST` of the time.
    """
    most = highest_load(model)
    acted_on = [
        name
        for name in policies
        if model.stages[name].station.replicas is not None and model.stages[name].busy_at(most) >= QUIET
    ]
    chosen = sorted(acted_on, key=lambda name: model.stages[name].busy_at(factor), reverse=True)[:busiest]
    calls = calls_each(len(acted_on), SEARCH_CALLS)
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


def calls_each(stages: int, of_all: int = ALL_CALLS) -> int:
    """How many calls a look has where so many stages are looked at."""
    return min(CALLS, max(MIN_CALLS_FOR_CURVE, of_all // max(1, stages)))


def highest_load(model: LoadModel) -> float:
    """The load at which the busiest stage is used `BUSIEST` of the time."""
    return min(stage.factor_at(BUSIEST) for stage in model.stages.values())


def plan_hurts_above(model: LoadModel, plan: Plan, *, seed: int = 0) -> float | None:
    """The load, times the profile's, from which on a plan makes the tail of whole requests worse.

    Args:
        model: the service as queues.
        plan: whose copies to send.
        seed: of all draws.

    Returns:
        None where it does not up to the load at which the busiest stage is used `BUSIEST` of the time, or
        where load acts on none of the stages that it reissues.
    """
    policies = policies_of(model, plan)
    if all(model.stages[name].station.replicas is None for name in policies):
        return None
    requests = int(min(REQUESTS, max(1000, MOST_CALLS / max(model.calls_per_request, 1.0))))
    most = highest_load(model)
    least = min(stage.factor_at(IDLEST) for stage in model.stages.values())

    def hurts(factor: float) -> bool:
        try:
            found = simulate_load(model, plan, factor=factor, requests=requests, seed=seed)
        except OverloadError:
            return True
        return tail_hurts(found.before_ms, found.after_ms)

    return _first_bad(hurts, max(least, most * IDLEST), most, fine=most * FINE)


def _first_bad(bad: Callable[[float], bool], low: float, high: float, *, fine: float = FINE) -> float | None:
    """Where it begins to be bad, by bisection to within `fine`; None where it is not even at the high end."""
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
