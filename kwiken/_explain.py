"""Why a service's slow requests are slow, and what the next bit of budget would buy where."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from kwiken._costs import cost_of_one_call, costs
from kwiken._curve import Curve
from kwiken._dag import critical_path
from kwiken._diagnosis import Blame, Characterisation, blame, characterise
from kwiken._errors import InputError
from kwiken._plan import VERSION, Budgets, Costs, Plan, StagePlan
from kwiken._profile import Floats, Profile
from kwiken._simulate import simulate
from kwiken._stage_curves import stage_curves

WHAT_IF = 0.05
REQUESTS = 20_000


class StageStory(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say of one stage.

    Attributes:
        name: of the stage.
        mean_share: share of the mean request's latency that it holds on the critical path.
        blamed: share of the slowest requests that it is blamed for.
        critical: share of all requests whose critical path holds it.
        effective: whether it is among the few that make up most of some frequent critical path.
        tail_ratio: its p99 over its median.
        cost: its share of the cost of a request.
        alone: by how much p99 would fall if the whole budget went to this stage, a fraction.
        alone_fraction: share of its calls that this would reissue.
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
    planned: float = 0.0


class PathStory(msgspec.Struct, frozen=True, kw_only=True):
    """A frequent critical path: its stages, how many requests it rules, and which stages make it long."""

    stages: tuple[str, ...]
    share: float
    effective: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile tells of its service's tail.

    Attributes:
        service: its name.
        requests: how many requests the profile holds.
        tail_ratio: p99 over median of the whole.
        budget: the reissue budget of each what-if.
        stages: parents before children.
        paths: the most frequent critical paths that cover 90% of the requests.
        effective_per_path: mean number of effective stages on a path.
    """

    service: str
    requests: int
    tail_ratio: float
    budget: float
    stages: tuple[StageStory, ...]
    paths: tuple[PathStory, ...]
    effective_per_path: float


def explain(
    profile: Profile, plan: Plan | None = None, *, budget: float = WHAT_IF, seed: int = 0
) -> Explanation:
    """Say which stages make slow requests slow, and what reissues would buy at each of them alone.

    Blame and critical paths follow Kwiken section 5.1. A stage contributes to a request's latency only what
    it adds on that request's critical path.

    Args:
        profile: what was learned.
        plan: whose choices to show beside.
        budget: reissue budget to try on every stage alone, as a share of all work.
        seed: of the simulations.

    Raises:
        InputError: for a profile without requests, a budget outside (0, 1], or a plan of another service.
    """
    _check(profile, plan, budget)
    latency = {stage.name: stage.latency_ms for stage in profile.stages}
    on_path = critical_path(profile.stages, latency)
    spent = {stage.name: latency[stage.name] * on for stage, on in zip(profile.stages, on_path, strict=True)}
    shape = characterise(profile.stages, latency, profile.latency_ms)
    shares = plan.cost if plan is not None else costs(profile)
    alone = _alone(profile, shares, budget, seed)
    stories = _Stories(shape, blame(spent, profile.latency_ms), shares, alone, _planned(plan))
    return Explanation(
        service=profile.service,
        requests=profile.requests,
        tail_ratio=shape.tail_ratio,
        budget=budget,
        stages=tuple(
            stories.of(stage.name, float(on.mean()))
            for stage, on in zip(profile.stages, on_path, strict=True)
        ),
        paths=tuple(
            PathStory(stages=path.stages, share=path.share, effective=path.effective) for path in shape.paths
        ),
        effective_per_path=shape.effective_per_path,
    )


def _check(profile: Profile, plan: Plan | None, budget: float) -> None:
    if not profile.requests:
        raise InputError("the profile has no requests")
    if not 0 < budget <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {budget}", where="budget")
    if plan is not None and plan.service != profile.service:
        raise InputError(
            f"the plan is for service {plan.service!r}, the profile of {profile.service!r}", where="plan"
        )


def _planned(plan: Plan | None) -> dict[str, float]:
    stages = plan.stages if plan is not None else {}
    return {name: stage.reissue.fraction for name, stage in stages.items() if stage.reissue is not None}


class _Stories:
    """All that is known of the stages, by name."""

    def __init__(
        self,
        shape: Characterisation,
        blamed: Mapping[str, Blame],
        shares: Costs,
        alone: Mapping[str, tuple[float, float]],
        planned: Mapping[str, float],
    ) -> None:
        self._shape, self._blamed, self._shares = shape, blamed, shares
        self._alone, self._planned = alone, planned

    def of(self, name: str, critical: float) -> StageStory:
        cut, fraction = self._alone.get(name, (0.0, 0.0))
        return StageStory(
            name=name,
            mean_share=self._blamed[name].mean_share,
            blamed=self._blamed[name].blamed,
            critical=critical,
            effective=name in self._shape.effective,
            tail_ratio=self._shape.stage_tail_ratio[name],
            cost=self._shares.stages.get(name, 0.0),
            alone=cut,
            alone_fraction=fraction,
            planned=self._planned.get(name, 0.0),
        )


def _alone(profile: Profile, shares: Costs, budget: float, seed: int) -> dict[str, tuple[float, float]]:
    """By stage: the p99 cut that the whole budget would buy there, and the share of its calls reissued."""
    found = {}
    base = _p99(simulate(profile, None, requests=REQUESTS, seed=seed).before_ms)
    for name, curve in stage_curves(profile, seed=seed).items():
        price = cost_of_one_call(profile, shares, name) * profile.stage(name).calls_per_request
        if price <= 0:
            continue
        trial = _only(profile, shares, name, curve, min(1.0, budget / price))
        reissue = trial.stages[name].reissue
        after = simulate(profile, trial, requests=REQUESTS, seed=seed).after_ms
        found[name] = (1 - _p99(after) / base if base > 0 else 0.0, reissue.fraction if reissue else 0.0)
    return found


def _only(profile: Profile, shares: Costs, name: str, curve: Curve, fraction: float) -> Plan:
    """A plan that reissues at one stage only."""
    return Plan(
        version=VERSION,
        service=profile.service,
        created="",
        profile=profile.digest,
        budgets=Budgets(reissue=1.0),
        cost=shares,
        stages={name: StagePlan(reissue=curve.policy(fraction))},
    )


def _p99(latency_ms: Floats) -> float:
    return float(np.percentile(latency_ms, 99))
