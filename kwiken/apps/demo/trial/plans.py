"""Plans of the demo: a first one to try, then those of the three arms that have one. Slow: run in a thread.

Traces without copies tell little of whether a copy is as slow as its call. So a first plan is tried for a
short time. Its pairs of calls and copies enter the profile, and its latencies correct the next plan's
expectation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from msgspec.structs import replace as replace_fields

from kwiken.apps.demo.setup.settings import MIN_LEARN_REQUESTS
from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import percentile
from kwiken.model.plan.ledger_terms import MAX_SERVICE_FLOOR_PER_S, LedgerTerms
from kwiken.model.plan.plan import Budgets, Plan, StagePlan
from kwiken.model.plan.rounding import rounded
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.model.service.stage import Reissue
from kwiken.otel.fit.fit import fit_forest, fit_profile
from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.planned_requests import requests_with_plan
from kwiken.tail.apportion.sum_of_variances import choices_of, equal_budget, with_coins
from kwiken.tail.judging.tried_plan import MIN_TRIED, corrected, correction_of
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings, PlanStudy
from kwiken.tail.simulation.common_random_numbers import PairedSimulation
from kwiken.tail.simulation.expectation import expected_rows

APPORTIONED, EVEN = "sumvar", "equal"
# A budget that small is all that is granted: with the default floor 3 copies a second would come on top.
LEDGER = LedgerTerms(floor_per_s=0.0)
P95_COPIED = 0.05  # share of a stage's calls that are older than its p95
P95_BUDGET = 0.5  # of work: clients that hedge at p95 have no budget, so the ledger should deny nothing
EVEN_STEP = 1.1  # ratio of successive budgets that are spread evenly


@dataclass(frozen=True)
class Learned:
    """Plans of the trial, with the profile that they were made from.

    Attributes:
        profile: profile of the requests without a plan, with the copies of those with the first plan.
        even: the plan that gives every stage the same amount of budget.
        everywhere: a copy at each stage's own p95, as clients of Envoy or gRPC are often set.
    """

    profile: Profile
    first: Plan
    study: PlanStudy
    even: Plan
    everywhere: Plan


@dataclass(frozen=True)
class DemoStretch:
    """Stretch of time whose requests are used, by when they began.

    Attributes:
        since_s: its beginning, in seconds since 1970.
        until_s: its end, in seconds since 1970.
    """

    since_s: float
    until_s: float


def learn(traces: Path, alone: Sequence[DemoStretch]) -> Profile:
    """Profile of the requests without a plan.

    Args:
        alone: stretches without a plan, in order, at least one.

    Raises:
        InputError: when there are too few requests.
    """
    profile = fit_profile([traces], since_s=alone[0].since_s, until_s=alone[-1].until_s)
    profile = part_of(profile, np.flatnonzero(_within(profile.started_s, alone)))
    if profile.requests < MIN_LEARN_REQUESTS:
        raise InputError(
            f"only {profile.requests} requests were traced while learning, "
            f"and {MIN_LEARN_REQUESTS} are needed; raise --rate or --seconds",
            where="traces",
        )
    return profile


def first_plan(profile: Profile, *, budget: float, seed: int) -> Plan:
    """Plan to try, from a profile without copies.

    Args:
        profile: profile of the requests without a plan.
        budget: budget for reissues, as a share from 0 to 1.
    """
    return _study(profile, APPORTIONED, budget, seed).plan


def learn_copies(
    profile: Profile, first: Plan, traces: Path, pilot: Sequence[DemoStretch], *, budget: float, seed: int
) -> Learned:
    """Add what the copies of the first plan did, and make both plans of the trial.

    The expectation is corrected by the latencies under the first plan, if they are enough. Pairs of a call
    and its copy count from the whole time with the first plan: a void stretch slows both of a pair.

    Args:
        profile: profile of the requests without a plan.
        pilot: stretches with the first plan, in order, at least one.
        budget: budget for reissues, as a share from 0 to 1.
    """
    forest = read_forest([traces])
    tried = fit_forest(forest, since_s=pilot[0].since_s, until_s=pilot[-1].until_s)
    copied = {stage.name: stage for stage in tried.stages}
    stages = tuple(_with_pairs_of(stage, copied.get(stage.name, stage)) for stage in profile.stages)
    known = replace(profile, stages=stages)
    study, even = (_study(known, spread, budget, seed) for spread in (APPORTIONED, EVEN))
    seen = requests_with_plan(forest, first.digest, within=lambda started_s: _within(started_s, pilot))
    if len(seen.latency_ms) >= MIN_TRIED:
        correction = correction_of(known, first, seen.latency_ms, copies=seen.copies, seed=seed)
        study = corrected(study, correction, recorded=known.requests, seed=seed)
    return Learned(known, first, study, even.plan, p95_everywhere(known, study.plan))


def p95_everywhere(profile: Profile, plan: Plan) -> Plan:
    """Plan that copies each call that may be copied at the p95 of its stage's calls.

    Args:
        plan: a plan for that profile, whose costs the new one has.
    """
    stages = {}
    for stage in profile.stages:
        if stage.name not in plan.stages:
            continue
        policy = None
        if stage.reissuable:
            after_ms = float(np.nanpercentile(stage.calls_ms, 100 * (1 - P95_COPIED)))
            policy = rounded(Reissue(after_ms=after_ms, fraction=P95_COPIED))
        stages[stage.name] = StagePlan(match=stage.match, reissue=policy, once=not stage.reissuable)
    return replace_fields(
        plan,
        budgets=Budgets(reissue=P95_BUDGET),
        stages=stages,
        expected=None,
        ledger=LedgerTerms(floor_per_s=MAX_SERVICE_FLOOR_PER_S),
    )


def even_for_the_same_p99(profile: Profile, study: PlanStudy, *, seed: int) -> float | None:
    """Smallest budget whose even spread is expected to reach a plan's p99; None if none does.

    Both p99s are those of the simulation, on the same requests, copies and coins.

    Args:
        profile: profile that the plan was made from.
        study: plan with its findings.
    """
    plan, curves = study.plan, study.curves
    if not curves:
        return None
    paired = PairedSimulation(profile, curves, expected_rows(profile), seed=seed)
    prices = {name: plan.cost.stages[name] for name in curves}
    goal_ms = percentile(paired.set_choices(choices_of(curves, study.allocation)), 99)
    budget = plan.budgets.reissue / 10
    while budget < sum(prices.values()):
        spread = with_coins(equal_budget(curves, prices, budget), curves)
        if percentile(paired.set_choices(choices_of(curves, spread)), 99) <= goal_ms:
            return budget
        budget *= EVEN_STEP
    return None


def _within(started_s: Floats, stretches: Sequence[DemoStretch]) -> Bools:
    """(n,): whether each request began in one of the stretches."""
    found = np.zeros(len(started_s), np.bool_)
    for each in stretches:
        found |= (started_s >= each.since_s) & (started_s < each.until_s)
    return found


def _with_pairs_of(stage: StageProfile, other: StageProfile) -> StageProfile:
    return replace(stage, pairs_ms=other.pairs_ms, pairs_cut=other.pairs_cut)


def _study(profile: Profile, spread: str, budget: float, seed: int) -> PlanStudy:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    settings = PlanSettings(
        budgets=Budgets(reissue=budget), spread=spread, ledger=LEDGER, created=created, seed=seed
    )
    return study_plan(profile, settings)
