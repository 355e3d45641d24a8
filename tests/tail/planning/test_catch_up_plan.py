"""Catch-up budgets: one age of lateness, kept on later requests, spent only where it helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kwiken.model.latency import end_to_end
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, CatchUpPolicy, Plan, SpanMatch
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.planning.catch_up import Actuators, LateRequestReplay, study_catch_up
from kwiken.tail.planning.notes import CatchUpUnspent, LateRequestsHelped, PriorityOnly
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.trace_driven import simulate
from papers.worlds.populations.services import POPULATIONS, StageDistribution, population
from tests.support.models.notes import of_kind

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]

STRICT = LedgerTerms(peak_factor=1.0, floor_per_s=0.0)
CREATED = "2026-01-01T00:00:00Z"


def drawn(
    distributions: tuple[StageDistribution, ...], requests: int, seed: int, *, threads: int = 1
) -> Profile:
    rng = np.random.default_rng(seed)
    stages = tuple(
        StageProfile(
            name=distribution.name,
            after=distribution.after,
            match=SpanMatch(service="s", operation=distribution.name),
            calls_ms=distribution.draw(rng, requests)[:, None],
            censored=np.zeros((requests, 1), dtype=np.bool_),
            threads=threads,
        )
        for distribution in distributions
    )
    return Profile(
        service="population",
        stages=stages,
        latency_ms=end_to_end(stages, {stage.name: stage.latency_ms for stage in stages}),
        started_s=np.arange(requests) / 50.0,
    )


LAWS = population(POPULATIONS["C"], np.random.default_rng(3))[30]


def ages_of(plan: Plan) -> set[float]:
    return {stage.catch_up.after_ms for stage in plan.stages.values() if stage.catch_up is not None}


def test_the_budget_holds_on_later_requests_and_p99_falls() -> None:
    spends, gains = [], []
    for seed in range(3):
        profile, later = drawn(LAWS, 4000, seed), drawn(LAWS, 8000, 50 + seed)
        arms = {
            budget: study_plan(
                profile,
                PlanSettings(budgets=Budgets(reissue=0.03, catch_up=budget), created=CREATED, cost="mean"),
            )
            for budget in (0.0, 0.01)
        }
        found = {budget: simulate(later, study.plan, requests=20_000) for budget, study in arms.items()}
        assert found[0.0].catch_up == 0
        spends.append(found[0.01].catch_up)
        gains.append(1 - found[0.01].after.p99_ms / found[0.0].after.p99_ms)
        assert len(ages_of(arms[0.01].plan)) == 1
    assert np.mean(spends) <= 0.01
    assert max(spends) <= 0.011, "within a tenth, which later requests may differ by"
    assert np.mean(spends) >= 0.007
    assert np.mean(gains) > 0.03
    assert min(gains) > 0


def test_the_study_says_when_requests_are_late_and_what_they_get() -> None:
    study = study_plan(
        drawn(LAWS, 4000, 1),
        PlanSettings(budgets=Budgets(reissue=0.03, catch_up=0.01), created=CREATED, cost="mean"),
    )
    assert study.late.after_ms is not None
    assert ages_of(study.plan) == {study.late.after_ms}
    [note] = of_kind(study.notes, LateRequestsHelped)
    assert (note.after_ms, note.late, note.cut) == (study.late.after_ms, study.late.late, study.late.cut)
    assert 0.01 < study.late.late < 0.5
    assert study.late.cut > 0.01
    expected = study.plan.expected
    assert expected is not None
    assert 0.005 < expected.spent.catch_up <= 0.01
    low, high = expected.bounds.spent["catch_up"]
    assert low < expected.spent.catch_up < high
    policies = [stage.catch_up for stage in study.plan.stages.values()]
    assert all(policy is not None and policy.priority and policy.threads == 1 for policy in policies)
    assert any(policy is not None and policy.reissue for policy in policies)
    assert Plan.from_json(study.plan.to_json()) == study.plan


def test_more_budget_lowers_the_age_of_late_requests() -> None:
    profile = drawn(LAWS, 3000, 2)
    ages = []
    for budget in (0.003, 0.01, 0.04):
        study = study_plan(
            profile,
            PlanSettings(budgets=Budgets(reissue=0.03, catch_up=budget), created=CREATED, cost="mean"),
        )
        ages.append(study.late.after_ms or np.inf)
    assert ages == sorted(ages, reverse=True)
    assert ages[0] > ages[2]


def test_stages_that_can_use_threads_get_them() -> None:
    profile, later = drawn(LAWS, 3000, 3, threads=3), drawn(LAWS, 6000, 53, threads=3)
    budgets = Budgets(catch_up=0.02)
    study = study_plan(profile, PlanSettings(budgets=budgets, created=CREATED, cost="mean"))
    assert all(s.catch_up is not None and s.catch_up.threads == 3 for s in study.plan.stages.values())
    alone = study_plan(drawn(LAWS, 3000, 3), PlanSettings(budgets=budgets, created=CREATED, cost="mean"))
    with_threads, without = (simulate(later, s.plan, requests=20_000) for s in (study, alone))
    assert with_threads.after.p99_ms < without.after.p99_ms < without.before.p99_ms
    assert with_threads.catch_up <= 0.024


def test_with_nothing_to_pay_for_late_requests_get_priority(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(4)
    profile = profile_of(stage_of("once", rng.exponential(1, 2000), reissuable=False))
    study = study_plan(profile, PlanSettings(budgets=Budgets(catch_up=0.02), created=CREATED))
    policy = study.plan.stages["once"].catch_up
    assert policy == CatchUpPolicy(after_ms=study.late.after_ms or 0, priority=True)
    assert study.late.late == pytest.approx(0.02, abs=0.002)
    [note] = of_kind(study.notes, PriorityOnly)
    assert (note.after_ms, note.late) == (study.late.after_ms, study.late.late)
    assert study.simulation.catch_up == 0


def test_catch_up_that_does_not_pay_is_left_unspent_with_a_note(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    # Slow for sure in the last stage, which nobody may help; the first one is steady.
    rng = np.random.default_rng(5)
    profile = profile_of(
        stage_of("first", rng.uniform(4.9, 5.1, 3000)),
        stage_of("last", rng.lognormal(2, 1, 3000), after=("first",), reissuable=False),
    )
    study = study_plan(profile, PlanSettings(budgets=Budgets(catch_up=0.01), created=CREATED))
    assert study.late.after_ms is None
    assert ages_of(study.plan) == set()
    assert of_kind(study.notes, CatchUpUnspent) == [CatchUpUnspent(study.late.cut)]


def test_requests_that_get_slower_over_time_make_the_age_timid(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(6)
    first, second = rng.lognormal(1, 0.8, 4000), rng.lognormal(1, 0.8, 4000)
    drift = np.linspace(1, 1.5, 4000)
    plans = {}
    for name, factor in (("steady", np.ones(4000)), ("drifting", drift)):
        profile = profile_of(stage_of("a", first * factor), stage_of("b", second * factor, after=("a",)))
        plans[name] = study_plan(profile, PlanSettings(budgets=Budgets(catch_up=0.02), created=CREATED))
    assert plans["drifting"].simulation.catch_up < 0.8 * plans["steady"].simulation.catch_up


def test_an_arena_spends_less_the_later_requests_are_late() -> None:
    profile = drawn(LAWS, 2000, 7)
    names = tuple(stage.name for stage in profile.stages)
    draft = study_plan(
        profile, PlanSettings(budgets=Budgets(reissue=0.03), created=CREATED, cost="mean")
    ).plan
    most = Actuators(frozenset(names), {}, names)
    replayed = LateRequestReplay(profile, draft, most)
    ages = np.linspace(0, float(profile.latency_ms.max()), 12)
    earliest = [replayed.least_age(most, budget) for budget in (10.0, 0.5, 0.1, 0.02, 0.0)]
    assert earliest[0] == 0.0 < earliest[1]  # help from the start on costs more than a half
    assert (np.diff(earliest) > 0).all()
    assert replayed.late_share(earliest[-1]) < 1 / 1000  # without a budget nothing is helped
    risks = [replayed.risk(most, age) for age in ages]
    assert (np.diff(risks) >= -1e-9).all()


def test_no_budget_no_study() -> None:
    profile = drawn(LAWS, 500, 9)
    draft = study_plan(profile, PlanSettings(budgets=Budgets(), created=CREATED)).plan
    assert study_catch_up(profile, draft, 0.0, reissue=["s0"], paying=[]).policies == {}


def test_ledgers_of_copies_and_of_help_refuse_on_their_own(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(10)
    slow = np.arange(6000) % 2000 < 200
    calls = rng.exponential(1, 6000) + 50 * (slow & (rng.random(6000) < 0.5))
    profile = profile_of(stage_of("a", calls), stage_of("b", rng.exponential(1, 6000), after=("a",)))
    study = study_plan(
        profile,
        PlanSettings(
            budgets=Budgets(reissue=0.01, catch_up=0.02),
            created=CREATED,
            ledger=STRICT,
            cost="calls",
            spread="uniform",
        ),
    )
    free = simulate(profile, study.plan, requests=20_000)
    assert study.simulation.late_refused > 0.1
    assert study.simulation.catch_up < free.catch_up
    assert (study.simulation.after_ms <= study.simulation.before_ms + 1e-9).all()
    assert sum(study.simulation.stage_late.values()) == pytest.approx(study.simulation.catch_up)
    assert costs(profile, "calls").stages == study.plan.cost.stages
    assert replace(study.simulation, late_refused=0.0).catch_up == study.simulation.catch_up


def test_a_profile_made_up_with_the_plans_own_seed_is_planned_like_any_other(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """Copies were dealt by the very values that had made the calls, and came out as slow as these."""
    cuts = []
    for seed in (0, 12345):
        rng = np.random.default_rng(seed)
        first, second = rng.lognormal(3, 1, 6000), rng.lognormal(3, 0.8, 6000)
        profile = profile_of(stage_of("a", first), stage_of("b", second, after=("a",)))
        budgets = Budgets(reissue=0.05, catch_up=0.02)
        cuts.append(study_plan(profile, PlanSettings(budgets=budgets, created=CREATED)).late.cut)
    assert cuts[0] == pytest.approx(cuts[1], abs=0.05)  # draws of copies alone move a cut by 0.02
