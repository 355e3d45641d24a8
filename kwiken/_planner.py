"""From a profile to a plan: costs, curves, apportionment, policies and what they should buy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from kwiken._correlation import HOPELESS, known_correlation
from kwiken._costs import CostModel, costs
from kwiken._curve import GRID, Curve, reissue_curve
from kwiken._errors import InputError
from kwiken._expect import expect
from kwiken._objective import OBJECTIVES, Verdict, apportion, cross_validated, scaled, with_coins
from kwiken._plan import VERSION, Budgets, Plan, StagePlan
from kwiken._pool import complete_calls, pool
from kwiken._profile import Profile
from kwiken._simulate import Simulation
from kwiken._spend import within_budget
from kwiken._sumvar import Allocation, HulledCurve, equal_budget, sumvar, uniform_fraction

FEWEST_REQUESTS = 10  # below, no quantile means anything
FEW_REQUESTS = 1000  # below, p99 rests on ten requests or less
WORTH_SAYING = 0.01
SAID = 0.05  # correlation from which a reader should know of it
FEWEST_CALLS = 10  # a stage with fewer calls shows no tail to cut

Spread = Callable[[Mapping[str, HulledCurve], Mapping[str, float], float], Allocation]
SPREADS: Mapping[str, Spread] = {
    "sumvar": sumvar,
    "equal": equal_budget,
    "uniform": uniform_fraction,
}


@dataclass(frozen=True)
class PlanStudy:
    """A plan, and why it is what it is.

    Attributes:
        plan: the plan.
        curves: by stage that may be reissued: its variance-response curve.
        allocation: who got how much, what it gains, and what the next bit would gain.
        margin: share of the budget that was apportioned; the rest is kept because spend on later requests
            differs from spend on earlier ones.
        simulation: what the plan does to the profile's own requests.
        notes: what a reader should know, in words.
        verdict: which objective was taken, and how those that were tried did on later requests.
    """

    plan: Plan
    curves: Mapping[str, Curve]
    allocation: Allocation
    margin: float
    simulation: Simulation
    notes: tuple[str, ...]
    verdict: Verdict = field(default_factory=lambda: Verdict("variance", {}))


def make_plan(
    profile: Profile,
    *,
    budgets: Budgets,
    objective: str = "variance",
    cost: CostModel | None = None,
    spread: str = "sumvar",
    created: str,
    window_s: float | None = None,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> Plan:
    """The plan for a profile; see `study_plan` for the arguments, errors and the reasons."""
    return study_plan(
        profile,
        budgets=budgets,
        objective=objective,
        cost=cost,
        spread=spread,
        created=created,
        window_s=window_s,
        seed=seed,
        copy_correlation=copy_correlation,
    ).plan


def study_plan(
    profile: Profile,
    *,
    budgets: Budgets,
    objective: str = "variance",
    cost: CostModel | None = None,
    spread: str = "sumvar",
    created: str,
    window_s: float | None = None,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> PlanStudy:
    """Make a plan and keep what led to it.

    Args:
        profile: what was learned.
        budgets: what may be spent; only `reissue` has a lever so far.
        objective: `variance`, the sum of the stages' variances; `p99` or `cvar` (mean of the slowest 1%) of
            the whole, by descent from there; `auto`, that of variance and p99 which does better on requests
            later than those it was planned on.
        cost: as `costs` takes it.
        spread: `sumvar`; or, to compare with, `equal` (the same budget to every stage) or `uniform` (the same
            fraction of calls at every stage).
        created: RFC 3339 time to note in the plan.
        window_s: length of the window over which a ledger will keep the budget (the runtime's: 10 s), so that
            the expectation has what it refuses; None for none. See `expect`.
        seed: of the draws behind the expectation.
        copy_correlation: of a copy's normal score with its call's, at every stage; 0 for independent copies;
            by default what each stage's pairs say, and 0 where there are none.

    Returns:
        The study. The budget is met on later requests than a time-out was learned from, as far as the
        profile's own history tells (see `within_budget`).

    Raises:
        InputError: for an unknown objective, spread or cost, or a profile with too few requests.
    """
    _check(profile, objective, spread, window_s)
    shares = costs(profile, cost)
    curves = stage_curves(profile, seed=seed, copy_correlation=copy_correlation)
    prices = {name: shares.stages[name] for name in curves}
    verdict = Verdict(objective, {})
    if objective == "auto":
        verdict = cross_validated(
            profile,
            prices,
            budgets.reissue,
            curves_of=lambda part: stage_curves(part, seed=seed, copy_correlation=copy_correlation),
            curves=curves,
            seed=seed,
        )
    aim = _Aim(profile, curves, prices, verdict.objective, spread, seed)
    spending = within_budget(profile, prices, budgets.reissue, aim)
    draft = Plan(
        version=VERSION,
        service=profile.service,
        created=created,
        profile=profile.digest,
        budgets=budgets,
        cost=shares,
        stages=_policies(profile, curves, spending.allocation),
    )
    simulation, expected = expect(
        profile, draft, window_s=window_s, seed=seed, copy_correlation=copy_correlation
    )
    return PlanStudy(
        plan=msgspec.structs.replace(draft, expected=expected),
        curves=curves,
        allocation=spending.allocation,
        margin=spending.margin,
        simulation=simulation,
        notes=(
            *_verdict_notes(verdict),
            *_notes(profile, budgets, curves, spending.margin, simulation.refused),
        ),
        verdict=verdict,
    )


class _Aim:
    """Apportions budgets for one objective; a descent runs once, and smaller budgets take its shape."""

    def __init__(
        self,
        profile: Profile,
        curves: Mapping[str, Curve],
        prices: Mapping[str, float],
        objective: str,
        spread: str,
        seed: int,
    ) -> None:
        self._profile, self._curves, self._prices = profile, curves, prices
        self._objective, self._spread, self._seed = objective, spread, seed
        self._shape: tuple[float, Allocation] | None = None

    def __call__(self, budget: float) -> Allocation:
        if self._objective == "variance":
            return with_coins(SPREADS[self._spread](self._curves, self._prices, budget), self._curves)
        if self._shape is None:
            found = apportion(
                self._profile,
                self._curves,
                self._prices,
                budget,
                objective=self._objective,
                seed=self._seed,
            )
            self._shape = (budget, found)
        whole, found = self._shape
        return found if budget == whole else scaled(found, budget / whole)


def stage_curves(
    profile: Profile,
    *,
    grid: tuple[float, ...] = GRID,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> dict[str, Curve]:
    """The variance-response curve of every stage that may be reissued and has calls enough.

    Args:
        profile: what was learned.
        grid: shares of the calls to reissue, ascending from 0.
        seed: of the draws that stand for cancelled calls (`complete_calls`).
        copy_correlation: as `study_plan` takes it. A stage whose copies are as slow as their calls
            (`HOPELESS`) has no curve.
    """
    curves = {}
    for i, stage in enumerate(profile.stages):
        if not stage.reissuable or (~np.isnan(stage.calls_ms)).sum() < FEWEST_CALLS:
            continue
        law = pool(stage)
        rho = known_correlation(stage, law, copy_correlation)
        if rho < HOPELESS:
            calls = complete_calls(stage, law, np.random.default_rng([seed, i]))
            curves[stage.name] = reissue_curve(calls, law, grid=grid, correlation=rho)
    return curves


def _check(profile: Profile, objective: str, spread: str, window_s: float | None) -> None:
    if objective not in OBJECTIVES:
        raise InputError(f"must be one of {', '.join(OBJECTIVES)}, not {objective!r}", where="objective")
    if spread not in SPREADS:
        raise InputError(f"must be one of {', '.join(SPREADS)}, not {spread!r}", where="spread")
    if objective != "variance" and spread != "sumvar":
        raise InputError(f"{objective!r} goes with the spread 'sumvar' only", where="objective")
    if window_s is not None and not 0 < window_s < math.inf:
        raise InputError(f"must be a finite number of seconds above 0, not {window_s}", where="window_s")
    if profile.requests < FEWEST_REQUESTS:
        raise InputError(
            f"a plan needs at least {FEWEST_REQUESTS} requests, and the profile has {profile.requests}; "
            "trace the service for longer",
            where="profile",
        )


def _policies(profile: Profile, curves: Mapping[str, Curve], allocation: Allocation) -> dict[str, StagePlan]:
    """Policies by stage; a request's own time is no stage that anyone could act on."""
    return {
        stage.name: StagePlan(
            match=stage.match,
            reissue=curves[stage.name].policy(
                allocation.fractions[stage.name], coin=allocation.coins.get(stage.name)
            )
            if stage.name in allocation.fractions
            else None,
        )
        for stage in profile.stages
        if not stage.own_time
    }


def _verdict_notes(verdict: Verdict) -> list[str]:
    if not verdict.cuts:
        return []
    told = ", ".join(f"{name} {cut:.1%}" for name, cut in verdict.cuts.items())
    return [f"objective {verdict.objective}: p99 cut on later requests than those planned on was {told}"]


def _notes(
    profile: Profile, budgets: Budgets, curves: Mapping[str, Curve], margin: float, refused: float
) -> list[str]:
    notes = []
    if profile.requests < FEW_REQUESTS:
        notes.append(
            f"only {profile.requests} requests: high percentiles rest on a few of them, so intervals are "
            "wide and the plan spends less than it may"
        )
    if margin < 1:
        notes.append(
            f"{margin:.0%} of the reissue budget was apportioned; the rest is kept for later requests that "
            "differ from the earlier ones"
        )
    if refused > WORTH_SAYING:
        notes.append(
            f"late calls come in bursts: the ledger should refuse {refused:.0%} of the planned spend because "
            "its window is spent, and the expectation counts with that"
        )
    cut = sum(int(stage.censored.sum()) for stage in profile.stages)
    if cut:
        notes.append(
            f"{cut} calls were cancelled before they ended; their latency is estimated (Kaplan-Meier), and "
            "beyond the longest call seen it is taken as that"
        )
    linked = [f"{name} {curve.correlation:.2f}" for name, curve in curves.items() if curve.correlation > SAID]
    if linked:
        notes.append(f"copies are slow with their calls; correlation planned with: {', '.join(linked)}")
    left = [s for s in profile.stages if s.reissuable and s.name not in curves]
    rare = [s.name for s in left if (~np.isnan(s.calls_ms)).sum() < FEWEST_CALLS]
    hopeless = [s.name for s in left if s.name not in rare]
    if hopeless:
        notes.append(f"a copy would be as slow as its call, so none are sent: {', '.join(hopeless)}")
    if rare:
        notes.append(f"too few calls to plan for: {', '.join(rare)}")
    unused = [lever for lever in ("utility_loss", "catch_up") if getattr(budgets, lever)]
    if unused:
        notes.append(f"budgets noted but not spent, because no policy uses them yet: {', '.join(unused)}")
    return notes
