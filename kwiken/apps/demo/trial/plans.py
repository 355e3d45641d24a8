"""Plans of the demo: a first one to try, then an apportioned and an even one. Slow: run in a thread.

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

from kwiken.apps.demo.setup.settings import MIN_LEARN_REQUESTS
from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.otel.fit.fit import fit_forest, fit_profile
from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.planned_requests import requests_with_plan
from kwiken.tail.judging.tried_plan import MIN_TRIED, corrected, correction_of
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings, PlanStudy

APPORTIONED, EVEN = "sumvar", "equal"


@dataclass(frozen=True)
class Learned:
    """Plans of the trial, with the profile that they were made from.

    Attributes:
        profile: profile of the requests without a plan, with the copies of those with the first plan.
        even: the plan that gives every stage the same amount of budget.
    """

    profile: Profile
    first: Plan
    study: PlanStudy
    even: Plan


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
        study = corrected(study, correction)
    return Learned(known, first, study, even.plan)


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
    settings = PlanSettings(budgets=Budgets(reissue=budget), spread=spread, created=created, seed=seed)
    return study_plan(profile, settings)
