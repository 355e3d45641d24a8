"""Explanation of a service's tail: causes of slow requests, and the gain of reissues at each stage alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import critical_path, end_to_end, percentile
from kwiken.model.plan.plan import Costs, Plan
from kwiken.model.profile.consistency import check_agrees, contradicted
from kwiken.model.profile.copy_estimates import unread_shares
from kwiken.model.profile.cost_models import cost_of_one_call, costs
from kwiken.model.profile.profile import Profile, StageProfile, complete_calls
from kwiken.tail.curves.confidence import CurveBounds, curve_bounds
from kwiken.tail.curves.curve import Curve, stage_curves
from kwiken.tail.diagnosis.blamed_stages import SLOW_SHARE, Blame, Characterisation, blame, characterise
from kwiken.tail.diagnosis.excess import SlowRequests, slow_in, slow_requests
from kwiken.tail.diagnosis.heat_map import Heat, heat_maps
from kwiken.tail.diagnosis.slow_replicas import SlowReplica, slow_replicas
from kwiken.tail.simulation.common_random_numbers import PairedSimulation, compared_rows

WHAT_IF_BUDGET = 0.05  # reissue budget tried at every stage, as a share of all work
LOW_CORRELATION, HIGH_CORRELATION = 0.1, 0.5  # the source's bounds of little and of much correlation
MIN_JOINT_REQUESTS = 30  # of both stages of a pair, or pairs of call and copy: fewer tell nothing


# Plans take stages as independent, and copies as correlated with their calls as far as pairs show.
class JointSlowness(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of nearly independent and of correlated pairs, by Pearson's correlation of latencies.

    Attributes:
        pairs: number of pairs with enough requests and varying latencies.
        low: share of the pairs whose correlation is below 0.1.
        high: share of the pairs whose correlation is above 0.5.
    """

    pairs: int
    low: float
    high: float


def joint_stages(profile: Profile) -> JointSlowness | None:
    """Correlation of pairs of stages over the requests that called both; None without such a pair.

    The latency of a stage is that of its last call. A request's own time counts as no stage here.
    """
    called = [stage for stage in profile.stages if not stage.own_time]
    latencies = [np.where(stage.visited, stage.latency_ms, np.nan) for stage in called]
    return _counted(
        [
            _pearson(first, second)
            for place, first in enumerate(latencies)
            for second in latencies[place + 1 :]
        ]
    )


def joint_copies(profile: Profile) -> JointSlowness | None:
    """Correlation of calls and copies that both ended, a value a stage; None where no stage has enough."""
    return _counted([_of_copies(stage) for stage in profile.stages])


def _of_copies(stage: StageProfile) -> float | None:
    if stage.pairs_ms is None or stage.pairs_cut is None:
        return None
    ended = stage.pairs_ms[~stage.pairs_cut.any(axis=1)]
    return _pearson(ended[:, 0], ended[:, 1])


def _pearson(first: Floats, second: Floats) -> float | None:
    both = ~(np.isnan(first) | np.isnan(second))
    if both.sum() < MIN_JOINT_REQUESTS or not (first[both].std() > 0 and second[both].std() > 0):
        return None
    return float(np.corrcoef(first[both], second[both])[0, 1])


def _counted(correlations: list[float | None]) -> JointSlowness | None:
    found = np.array([each for each in correlations if each is not None])
    if not len(found):
        return None
    return JointSlowness(
        pairs=len(found),
        low=float((found < LOW_CORRELATION).mean()),
        high=float((found > HIGH_CORRELATION).mean()),
    )


class StageStory(msgspec.Struct, frozen=True, kw_only=True):
    """Findings on one stage.

    Attributes:
        mean_share: share of the mean request's latency that the stage holds on the critical path.
        blamed: share of the slowest requests that the stage is blamed for.
        critical: share of all requests whose critical path contains the stage.
        effective: whether it is one of the few stages that make up most of some frequent critical path.
        cut_short: share of the slowest requests in which a call of the stage was cancelled before its end: at
            a time-out, or because a copy had answered.
        unread: share of what the slowest 5% of its calls took beyond its median in which answers lay unread
            at a busy gateway, which no copy shortens; 0 where it is below a tenth or not known.
        tail_ratio: p99 over median of the stage.
        cost: its share of the cost of a request.
        alone: share by which p99 would fall if the whole budget went to this stage.
        alone_fraction: share of its calls that the whole budget would reissue.
        variance_cut: share of its own variance that this would remove.
        variance_cut_low: low end of a 90% interval of `variance_cut`, a share.
        variance_cut_high: high end of that interval, a share.
        planned: share of its calls that the plan reissues; 0 without a plan.
    """

    name: str
    mean_share: float
    blamed: float
    critical: float
    effective: bool
    tail_ratio: float
    cost: float
    alone: float
    alone_fraction: float
    variance_cut: float = 0.0
    variance_cut_low: float = 0.0
    variance_cut_high: float = 0.0
    planned: float = 0.0
    in_degree: int = 0
    cut_short: float = 0.0
    unread: float = 0.0


class PathStory(msgspec.Struct, frozen=True, kw_only=True):
    """Frequent critical path: its stages, its share of the requests, and its effective stages.

    Attributes:
        stages: names from first to last.
        share: share of the requests with this path.
        effective: smallest set of its stages that makes up more than 90% of those requests' latency.
    """

    stages: tuple[str, ...]
    share: float
    effective: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of the tail latency of a profile's service.

    Attributes:
        tail_ratio: p99 over median of whole requests.
        slow: the slowest 1% and 5% of the requests, then those of the time asked about, with the part of each
            service and link in what makes them slow.
        budget: reissue budget of each what-if, as a share of all work.
        stages: findings by stage, parents before children.
        paths: the most frequent critical paths that cover 90% of the requests.
        effective_per_path: mean number of effective stages on a path.
        effective: names of the effective stages, parents before children.
        cut_short: number of calls cancelled before their end. Their times are estimated as for a plan, except
            in the heat maps, which show the time until they were cancelled.
        heat: latency by replica and time, one map per stage.
        slow_replicas: replicas that answer more slowly than others of their service, costliest first.
        contradicted: share of the requests whose latency differs by more than a tenth from the one that their
            stages add up to; such requests may occur where copies were sent while the service was traced.
        joint_stages: how pairs of stages correlate; None where no two stages vary over the same requests.
        joint_copies: how calls correlate with their copies, a value a stage; None where few had a copy.
    """

    service: str
    requests: int
    tail_ratio: float
    slow: tuple[SlowRequests, ...]
    budget: float
    stages: tuple[StageStory, ...]
    paths: tuple[PathStory, ...]
    effective_per_path: float
    effective: tuple[str, ...] = ()
    cut_short: int = 0
    heat: tuple[Heat, ...] = ()
    slow_replicas: tuple[SlowReplica, ...] = ()
    contradicted: float = 0.0
    joint_stages: JointSlowness | None = None
    joint_copies: JointSlowness | None = None


def explain(
    profile: Profile,
    plan: Plan | None = None,
    *,
    budget: float = WHAT_IF_BUDGET,
    during_s: tuple[float, float] | None = None,
    seed: int = 0,
) -> Explanation:
    """Find the stages that make requests slow, and the gain of reissues at each one alone.

    Blame and critical paths follow Kwiken section 5.1. A stage contributes to a request's latency only what
    it adds on that request's critical path.

    Args:
        plan: plan whose choices to show beside the findings; None for none.
        budget: reissue budget to try at every stage alone, as a share of all work, above 0 and at most 1.
        during_s: start and end of a time to explain too, seconds since 1970; None for none.

    Raises:
        InputError: for a profile without requests, or with latencies that mostly contradict its stages; a
            budget outside (0, 1]; a time as `explain_time` refuses it; a plan of another service or of stages
            that the profile lacks.
    """
    _check(profile, plan, budget)
    latency = _latency(profile, seed)
    # The recorded latency is kept unless a call was cancelled: then the total follows from the estimates.
    total = end_to_end(profile.stages, latency) if _cut_short(profile) else profile.latency_ms
    on_path = critical_path(profile.stages, latency)
    spent = {stage.name: latency[stage.name] * on for stage, on in zip(profile.stages, on_path, strict=True)}
    shape = characterise(profile.stages, latency, total)
    shares = plan.cost if plan is not None else costs(profile)
    alone = _alone(profile, shares, budget, seed)
    cut = {stage.name: np.asarray(stage.censored.any(axis=1)) for stage in profile.stages}
    blamed = blame(spent, total)
    services = _by_service(profile)
    slow = slow_requests(
        services or spent, total, by="service" if services else "stage", links=_by_link(profile)
    )
    if during_s is not None:
        slow = (*slow, explain_time(profile, *during_s))
    slowest, unread = _among_slowest(cut, total), unread_shares(profile)
    stories = _Stories(shape, blamed, shares, alone, _planned(plan), slowest, unread)
    return Explanation(
        service=profile.service,
        requests=profile.requests,
        tail_ratio=shape.tail_ratio,
        slow=slow,
        budget=budget,
        stages=tuple(
            stories.of(stage, float(on.mean())) for stage, on in zip(profile.stages, on_path, strict=True)
        ),
        paths=tuple(
            PathStory(stages=path.stages, share=path.share, effective=path.effective) for path in shape.paths
        ),
        effective_per_path=shape.effective_per_path,
        effective=shape.effective,
        cut_short=_cut_short(profile),
        heat=heat_maps(profile),
        slow_replicas=slow_replicas(profile.instances),
        contradicted=float(contradicted(profile).mean()),
        joint_stages=joint_stages(profile),
        joint_copies=joint_copies(profile),
    )


def explain_time(profile: Profile, since_s: float, until_s: float) -> SlowRequests:
    """What makes the requests of some time slow: parts of services and links above their usual medians.

    Args:
        since_s: start of the time, seconds since 1970.
        until_s: its end, which is no part of it, seconds since 1970.

    Raises:
        InputError: no request starts in that time, or every one does, so that none is left to compare with.
    """
    there = (profile.started_s >= since_s) & (profile.started_s < until_s)
    if not there.any():
        raise InputError("no request starts in that time", where="during")
    if there.all():
        raise InputError("all requests start in that time, so none is left to compare with", where="during")
    services = _by_service(profile)
    if services:
        return slow_in(services, there, during_s=(since_s, until_s), links=_by_link(profile))
    latency = {stage.name: stage.latency_ms for stage in profile.stages}
    on_path = critical_path(profile.stages, latency)
    spent = {stage.name: latency[stage.name] * on for stage, on in zip(profile.stages, on_path, strict=True)}
    return slow_in(spent, there, during_s=(since_s, until_s), by="stage")


def _by_link(profile: Profile) -> dict[tuple[str, str], Floats]:
    """By caller and callee: (n,) time of the link in each request, milliseconds."""
    if profile.link_ms is None:
        return {}
    return {link: profile.link_ms[:, place] for place, link in enumerate(profile.link_names)}


def _by_service(profile: Profile) -> dict[str, Floats]:
    """By service: (n,) time in each request, milliseconds; empty where the profile does not say."""
    if profile.service_ms is None:
        return {}
    return {name: profile.service_ms[:, place] for place, name in enumerate(profile.service_names)}


def _cut_short(profile: Profile) -> int:
    return sum(int(stage.censored.sum()) for stage in profile.stages)


def _latency(profile: Profile, seed: int) -> dict[str, Floats]:
    """By stage: (n,) latency, milliseconds, with estimates for cancelled calls as in a plan's simulations."""
    found = {}
    for i, stage in enumerate(profile.stages):
        if stage.censored.any():
            calls = complete_calls(stage, stage.distribution, np.random.default_rng([seed, i]))
            found[stage.name] = np.asarray(np.fmax.reduce(calls, axis=1, initial=0.0))
        else:
            found[stage.name] = stage.latency_ms
    return found


def _among_slowest(there: Mapping[str, Bools], total_ms: Floats) -> dict[str, float]:
    """By stage: share of the slowest requests with a true entry."""
    count = max(1, round(SLOW_SHARE * len(total_ms)))
    slowest = np.argsort(total_ms, kind="stable")[-count:]
    return {name: float(rows[slowest].mean()) for name, rows in there.items()}


def _check(profile: Profile, plan: Plan | None, budget: float) -> None:
    if not profile.requests:
        raise InputError("the profile has no requests", where="profile")
    if not 0 < budget <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {budget}", where="budget")
    if plan is not None and plan.service != profile.service:
        raise InputError(
            f"the plan is for service {plan.service!r}, the profile of {profile.service!r}", where="plan"
        )
    known = [stage.name for stage in profile.stages]
    for name in plan.stages if plan is not None else ():
        if name not in known:
            raise InputError(
                f"the plan's stage {name!r} is not in the profile; it has: {', '.join(known[:8])}",
                where="plan",
            )
    check_agrees(profile)


def _planned(plan: Plan | None) -> dict[str, float]:
    stages = plan.stages if plan is not None else {}
    return {name: stage.reissue.fraction for name, stage in stages.items() if stage.reissue is not None}


class _Stories:
    """Findings by stage, assembled from the separate analyses."""

    def __init__(
        self,
        shape: Characterisation,
        blamed: Mapping[str, Blame],
        shares: Costs,
        alone: Mapping[str, WhatIf],
        planned: Mapping[str, float],
        cut_short: Mapping[str, float],
        unread: Mapping[str, float],
    ) -> None:
        self._shape, self._blamed, self._shares = shape, blamed, shares
        self._alone, self._planned = alone, planned
        self._cut_short, self._unread = cut_short, unread

    def of(self, stage: StageProfile, critical: float) -> StageStory:
        name = stage.name
        alone = self._alone.get(name, NO_GAIN)
        return StageStory(
            name=name,
            mean_share=self._blamed[name].mean_share,
            blamed=self._blamed[name].blamed,
            critical=critical,
            effective=name in self._shape.effective,
            tail_ratio=self._shape.stage_tail_ratio[name],
            cost=self._shares.stages.get(name, 0.0),
            alone=alone.cut,
            alone_fraction=alone.fraction,
            variance_cut=alone.variance[1],
            variance_cut_low=alone.variance[0],
            variance_cut_high=alone.variance[2],
            planned=self._planned.get(name, 0.0),
            in_degree=len(stage.after),
            cut_short=self._cut_short[name],
            unread=self._unread.get(name, 0.0),
        )


@dataclass(frozen=True)
class WhatIf:
    """Gain of a budget spent at one stage alone.

    Attributes:
        cut: share by which p99 of whole requests falls.
        fraction: share of the stage's calls reissued.
        variance: share of the stage's variance that is removed: low, estimate, high.
    """

    cut: float
    fraction: float
    variance: tuple[float, float, float]


NO_GAIN = WhatIf(0.0, 0.0, (0.0, 0.0, 0.0))


def _alone(profile: Profile, shares: Costs, budget: float, seed: int) -> dict[str, WhatIf]:
    """Gain of the whole budget at each stage that may be reissued, on common random numbers."""
    curves = stage_curves(profile, seed=seed)
    bounds = curve_bounds(profile, curves, seed=seed)
    paired = PairedSimulation(profile, curves, compared_rows(profile), seed=seed)
    base = _p99(paired.set_choices({}))
    found = {}
    for name, curve in curves.items():
        price = cost_of_one_call(profile, shares, name) * profile.stage(name).calls_per_request
        if price <= 0:
            continue
        fraction = min(1.0, budget / price)
        policy = curve.policy(fraction)
        after = _p99(paired.with_choices({name: (fraction, curve.coin_at(fraction))}))
        found[name] = WhatIf(
            1 - after / base if base > 0 else 0.0,
            policy.fraction if policy is not None else 0.0,
            _variance_cut(curve, bounds[name], fraction),
        )
    return found


def _variance_cut(curve: Curve, bounds: CurveBounds, fraction: float) -> tuple[float, float, float]:
    """Low, estimated and high share of a stage's variance that reissuing a share of its calls removes."""
    whole = float(curve.variance[0])
    if whole <= 0:
        return 0.0, 0.0, 0.0
    gain = float(np.interp(fraction, bounds.fraction, bounds.gain))
    low, high = bounds.gain_between(fraction)
    return min(1.0, low / whole), max(0.0, gain / whole), min(1.0, high / whole)


def _p99(latency_ms: Floats) -> float:
    return percentile(latency_ms, 99)
