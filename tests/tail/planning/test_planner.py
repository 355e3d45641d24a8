"""Planner: budgets kept on later requests, gains, notes, and invalid settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Costs, Expected, PartialPolicy, Plan
from kwiken.model.plan.rounding import rounded
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.planning.notes import (
    CallsCancelled,
    FewRequests,
    LargerBudgetHelps,
    NoBudgetHelps,
    NoP99Cut,
    NoStageReissuable,
    Note,
    SpendRefused,
    TooFewCalls,
)
from kwiken.tail.planning.planner import make_plan, study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.trace_driven import simulate
from tests.support.models.notes import of_kind

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]

CREATED = "2026-01-01T00:00:00Z"
STRICT = LedgerTerms(peak_factor=1.0, floor_per_s=0.0)


def expected_of(plan: Plan) -> Expected:
    assert plan.expected is not None
    return plan.expected


def reissue_of(plan: Plan, stage: str) -> Reissue:
    policy = plan.stages[stage].reissue
    assert policy is not None
    return policy


def chain_of(stage_of: StageOf, profile_of: ProfileOf, *, requests: int, seed: int) -> Profile:
    """A fan-out, a stage with rare pauses, a calm one, one that must not be reissued, and own time."""
    rng = np.random.default_rng(seed)
    paused = rng.lognormal(1, 0.3, requests) + (rng.random(requests) < 0.03) * rng.uniform(50, 150, requests)
    return profile_of(
        stage_of("s:r (own time)", rng.exponential(1, requests), reissuable=False),
        stage_of("wide", rng.lognormal(1, 0.6, (requests, 8)), after=("s:r (own time)",)),
        stage_of("paused", paused, after=("wide",)),
        stage_of("calm", rng.uniform(4, 5, requests), after=("wide",)),
        stage_of("once", rng.lognormal(1, 1, requests), after=("paused", "calm"), reissuable=False),
    )


@pytest.fixture
def profile(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    return chain_of(stage_of, profile_of, requests=5000, seed=0)


def test_plan_reissues_what_pays_and_nothing_else(profile: Profile) -> None:
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED))
    plan = study.plan
    assert set(plan.stages) == {"wide", "paused", "calm", "once"}
    assert plan.stages["once"].reissue is None
    assert "once" not in study.curves
    assert plan.stages["paused"].reissue is not None
    assert reissue_of(plan, "paused").fraction > 0.02
    assert plan.stages["paused"].match == profile.stage("paused").match
    assert plan.created == CREATED
    assert plan.profile == profile.digest
    assert study.allocation.marginal["calm"] < study.allocation.marginal["wide"]
    assert sum(plan.cost.stages.values()) == pytest.approx(1)


def test_without_evidence_of_copies_the_expectation_has_a_condition_and_no_interval(profile: Profile) -> None:
    budgets = Budgets(reissue=0.05)
    expected = expected_of(make_plan(profile, budgets=budgets, created=CREATED))
    copied = {
        name
        for name, each in make_plan(profile, budgets=budgets, created=CREATED).stages.items()
        if each.reissue
    }
    assert set(expected.unshown) == copied
    assert not expected.bounds.after
    stated = study_plan(profile, PlanSettings(budgets=budgets, created=CREATED, copy_correlation=0.0)).plan
    assert expected_of(stated).after == expected.after
    assert not expected_of(stated).unshown


def test_expectation_is_ordered_bracketed_and_within_budget(profile: Profile) -> None:
    settings = PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED, copy_correlation=0.0)
    plan = study_plan(profile, settings).plan
    expected = expected_of(plan)
    assert expected.after.p99_ms < 0.8 * expected.before.p99_ms
    assert 0.005 < expected.spent.reissue <= 0.05
    for arm, bounds in (("before", expected.bounds.before), ("after", expected.bounds.after)):
        for name in ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms"):
            low, high = bounds[name]
            assert low <= getattr(getattr(expected, arm), name) * 1.02
            assert high >= getattr(getattr(expected, arm), name) * 0.98
            assert low < high
    low, high = expected.bounds.spent["reissue"]
    assert low < expected.spent.reissue < high
    observed = np.percentile(profile.latency_ms, 99)
    assert expected.before.p99_ms == pytest.approx(observed, rel=0.01)


def test_plan_survives_its_json_and_simulates_as_expected(profile: Profile) -> None:
    plan = make_plan(profile, budgets=Budgets(reissue=0.05), created=CREATED)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    simulated = simulate(profile, again, requests=40_000, seed=9)
    assert simulated.after.p99_ms == pytest.approx(expected_of(plan).after.p99_ms, rel=0.05)
    assert simulated.reissue == pytest.approx(expected_of(plan).spent.reissue, rel=0.05)


def test_same_profile_same_seed_same_plan(profile: Profile) -> None:
    budgets = Budgets(reissue=0.03)
    first = make_plan(profile, budgets=budgets, created=CREATED, seed=4)
    loaded = profile_from_json(profile_to_json(profile))
    assert make_plan(profile, budgets=budgets, created=CREATED, seed=4) == first
    assert make_plan(loaded, budgets=budgets, created=CREATED, seed=4).profile == first.profile


def test_what_is_needed_is_spent_on_requests_like_those_seen(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """The rest of the budget would buy nearly nothing."""
    spends, expected = [], []
    for seed in range(6):
        plan = make_plan(
            chain_of(stage_of, profile_of, requests=1500, seed=seed),
            budgets=Budgets(reissue=0.05),
            created=CREATED,
        )
        later = chain_of(stage_of, profile_of, requests=8000, seed=100 + seed)
        spends.append(simulate(later, plan, requests=20_000).reissue)
        expected.append(expected_of(plan).spent.reissue)
    assert max(spends) <= 0.06
    assert np.mean(spends) == pytest.approx(np.mean(expected), rel=0.15)
    assert np.mean(spends) < 0.03


def test_more_of_the_cut_costs_more(profile: Profile) -> None:
    found = [
        study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED, within=within)).plan
        for within in (0.0, 0.02, 0.3, 1.0)
    ]
    spends = [expected_of(plan).spent.reissue for plan in found]
    assert spends == sorted(spends, reverse=True)
    assert spends[0] > spends[2] > spends[3]
    cuts = [expected_of(plan).before.p99_ms - expected_of(plan).after.p99_ms for plan in found]
    assert cuts[1] >= 0.98 * cuts[0]
    assert all(name in expected_of(found[3]).insured for name in ("paused", "wide"))


def test_the_curve_of_spend_falls_from_no_copies_to_the_best(profile: Profile) -> None:
    expected = expected_of(make_plan(profile, budgets=Budgets(reissue=0.05), created=CREATED))
    spends, p99s = zip(*expected.by_spend, strict=True)
    assert spends[0] == 0
    assert p99s[0] == pytest.approx(expected.before.p99_ms)
    assert list(spends) == sorted(set(spends))
    assert list(p99s) == sorted(set(p99s), reverse=True)
    assert spends[-1] <= 0.05 * 1.0001
    assert expected.after.p99_ms <= p99s[-1] + 0.02 * (p99s[0] - p99s[-1]) + 1e-6


def test_a_stage_gets_no_copies_that_take_more_work_than_they_save(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """Jitter of half a millisecond is not worth a copy of two; pauses of 60 ms are."""
    rng = np.random.default_rng(6)
    jitter = rng.uniform(2.0, 2.5, 3000)
    paused = jitter + 60.0 * (rng.random(3000) < 0.02)
    measured = [replace(stage_of("a", x), busy_ms=2.0) for x in (jitter, paused)]
    free = [stage_of("a", x) for x in (jitter, paused)]
    settings = PlanSettings(budgets=Budgets(reissue=0.3), created=CREATED, insurance=0.0, within=0.0)
    shares = {}
    for name, stages in {"measured": measured, "free": free}.items():
        plans = [study_plan(profile_of(stage), settings).plan.stages["a"].reissue for stage in stages]
        shares[name] = [0.0 if policy is None else policy.fraction for policy in plans]
    assert shares["measured"][0] == 0
    assert shares["free"][0] > 0.1
    assert 0.015 < shares["measured"][1] < 0.06


def unequal_of(stage_of: StageOf, profile_of: ProfileOf, seed: int) -> Profile:
    """Fifteen stages in a row of very unequal means and spreads."""
    rng = np.random.default_rng(seed)
    means, sigmas = rng.lognormal(np.log(10), 1, 15), rng.uniform(0.1, 1, 15)
    return profile_of(
        *(
            stage_of(
                f"s{i}", rng.lognormal(np.log(means[i]), sigmas[i], 3000), after=(f"s{i - 1}",) if i else ()
            )
            for i in range(15)
        )
    )


@pytest.mark.parametrize("budget", [pytest.param(0.01, marks=pytest.mark.slow), 0.05])
def test_sumvar_beats_the_same_budget_spread_evenly(
    stage_of: StageOf, profile_of: ProfileOf, budget: float
) -> None:
    left = dict.fromkeys(("sumvar", "uniform", "equal"), 0.0)
    for seed in range(3):
        profile = unequal_of(stage_of, profile_of, seed)
        for spread in left:
            plan = study_plan(
                profile, PlanSettings(budgets=Budgets(reissue=budget), created=CREATED, spread=spread)
            ).plan
            expected = expected_of(plan)
            left[spread] += expected.after.p99_ms / expected.before.p99_ms / 3
    assert left["sumvar"] < left["uniform"] - 0.01
    assert left["sumvar"] < left["equal"] - 0.01


def paused_of(stage_of: StageOf, profile_of: ProfileOf, *, bursts: bool) -> Profile:
    """Five percent of the calls are slow: in one stretch out of ten, or spread over all the time."""
    rng = np.random.default_rng(8)
    slow = rng.random(6000) < np.where(np.arange(6000) % 2000 < 200, 0.5, 0.0)
    slow = slow if bursts else rng.permutation(slow)
    return profile_of(stage_of("a", rng.exponential(1, 6000) + 50 * slow))


def test_expectation_counts_with_what_a_ledger_refuses(stage_of: StageOf, profile_of: ProfileOf) -> None:
    found = {}
    for bursts in (False, True):
        profile = paused_of(stage_of, profile_of, bursts=bursts)
        for terms in (None, STRICT):
            study = study_plan(
                profile, PlanSettings(budgets=Budgets(reissue=0.08), created=CREATED, ledger=terms)
            )
            found[bursts, terms] = study
            assert study.plan.ledger == (terms or LedgerTerms())
            spent = expected_of(study.plan).spent.reissue
            assert spent == pytest.approx(sum(study.simulation.stage_spent.values()))
    ladders = {key: expected_of(study.plan).after for key, study in found.items()}
    assert found[True, None].simulation.refused == 0
    assert found[True, STRICT].simulation.refused > 0.3
    [refused] = of_kind(found[True, STRICT].notes, SpendRefused)
    assert refused.share == found[True, STRICT].simulation.refused
    assert ladders[True, STRICT].p99_ms > 2 * ladders[True, None].p99_ms
    assert found[False, STRICT].simulation.refused < 0.15
    assert expected_of(found[True, STRICT].plan).before == expected_of(found[True, None].plan).before


def test_edges_do_not_change_the_apportionment(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(7)
    calls = {
        name: rng.lognormal(0, sigma, 2000) for name, sigma in zip("abcd", (0.2, 0.5, 0.8, 1.1), strict=True)
    }
    row = {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)}
    fan = {"a": (), "b": ("a",), "c": ("a",), "d": ("a",)}
    plans = [
        make_plan(
            profile_of(*(stage_of(name, calls[name], after=after[name]) for name in "abcd")),
            budgets=Budgets(reissue=0.05),
            created=CREATED,
        )
        for after in (row, fan)
    ]
    assert plans[0].stages == plans[1].stages
    assert plans[0].expected != plans[1].expected


def test_no_budget_means_no_reissue(profile: Profile) -> None:
    plan = make_plan(profile, budgets=Budgets(), created=CREATED)
    assert all(stage.reissue is None for stage in plan.stages.values())
    assert expected_of(plan).after == expected_of(plan).before
    assert expected_of(plan).spent.reissue == 0


def test_whole_budget_doubles_every_call_that_may_be(profile: Profile) -> None:
    settings = PlanSettings(budgets=Budgets(reissue=1.0), created=CREATED, objective="variance")
    plan = study_plan(profile, settings).plan
    assert reissue_of(plan, "paused").after_ms == 0
    assert reissue_of(plan, "paused").fraction == 1


def test_a_plan_for_few_requests_says_so(stage_of: StageOf, profile_of: ProfileOf) -> None:
    few = chain_of(stage_of, profile_of, requests=20, seed=3)
    study = study_plan(few, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED))
    assert FewRequests(20) in study.notes
    assert expected_of(study.plan).spent.reissue <= 0.05 * 1.01


def test_too_few_requests_are_refused_with_a_message(stage_of: StageOf, profile_of: ProfileOf) -> None:
    with pytest.raises(InputError, match="at least 10 requests, and the profile has 9"):
        make_plan(chain_of(stage_of, profile_of, requests=9, seed=0), budgets=Budgets(), created=CREATED)


def test_a_stage_that_is_hardly_ever_called_is_left_alone(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(5)
    seldom = np.where(np.arange(1000) < 5, 50.0, np.nan)
    profile = profile_of(stage_of("a", rng.exponential(1, 1000)), stage_of("seldom", seldom, after=("a",)))
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED))
    assert study.plan.stages["seldom"].reissue is None
    assert TooFewCalls(("seldom",)) in study.notes


def test_cancelled_calls_are_mentioned(stage_of: StageOf, profile_of: ProfileOf) -> None:
    true = np.random.default_rng(6).exponential(1, 2000)
    cut = (true > 2) & (np.arange(2000) % 2 == 0)
    profile = profile_of(stage_of("a", np.where(cut, 2.0, true), censored=cut))
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED))
    assert CallsCancelled(int(cut.sum())) in study.notes


def test_curves_are_of_the_stages_that_may_be_reissued(profile: Profile) -> None:
    curves = stage_curves(profile)
    assert set(curves) == {"wide", "paused", "calm"}
    wide = profile.stage("wide").calls_ms
    assert curves["wide"].variance[0] == pytest.approx(wide.max(axis=1).var())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"objective": "median"}, "objective: must be one of tail, variance"),
        ({"spread": "random"}, "spread: must be one of sumvar"),
        ({"insurance": 1.5}, "insurance: must be a share from 0 to 1"),
        ({"cost": "free"}, "cost: must be one of typical"),
        ({"cost": {"wide": 1.0}}, "cost: lacks stage"),
    ],
)
def test_unknown_settings_are_refused(profile: Profile, setting: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED, **setting))


def test_a_plan_has_no_digits_that_mean_nothing(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = chain_of(stage_of, profile_of, requests=1500, seed=3)
    plan = make_plan(
        profile, budgets=Budgets(reissue=0.05, utility_loss=0.003, catch_up=0.02), created=CREATED
    )
    assert any(stage.partial is not None for stage in plan.stages.values())
    assert any(stage.reissue is not None for stage in plan.stages.values())
    text = plan.to_json()
    read = Plan.from_json(text)
    assert read == plan
    assert read.digest == plan.digest
    for line in text.splitlines():
        if "progress" not in line:
            assert re.search(r"\d\.\d*?(0{6,}|9{6,})\d", line) is None, line
            assert re.search(r"_ms.*\.\d{7}", line) is None, line


def test_a_call_of_a_time_outs_very_length_stays_in_time(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(4)
    times = rng.uniform(1, 2, 500) + rng.random(500) * 1e-8
    times[:10] += 100.0
    plan = make_plan(profile_of(stage_of("a", times)), budgets=Budgets(reissue=0.02), created=CREATED)
    policy = reissue_of(plan, "a")
    assert len(repr(policy.after_ms)) <= 12
    late = float((times > policy.after_ms).mean())
    assert late * policy.probability == pytest.approx(policy.fraction, abs=1e-9)


@given(st.floats(0, 1e7), st.floats(1e-12, 1), st.integers(1, 1000), st.integers(1, 1000))
def test_rounding_keeps_what_a_rule_means(ms: float, share: float, needed: int, shards: int) -> None:
    progress = min(needed, shards) / shards
    rule = PartialPolicy(cutoff_ms=ms, wait_ms=None, progress=progress, loss=share)
    found = rounded(rule)
    assert found.progress == progress
    assert found.wait_ms is None
    assert found.cutoff_ms is not None
    assert ms <= found.cutoff_ms <= ms + 2e-6
    assert found.loss == pytest.approx(share, rel=1e-8)
    assert rounded(found) == found


def test_stages_called_like_fields_are_rounded_as_shares() -> None:
    costs = Costs(model="file", stages={"a_ms": 1e-8 / 3, "progress": 2 / 3, "before": 1 / 3})
    assert rounded(costs).stages == {"a_ms": 3.33333333e-9, "progress": 0.666666667, "before": 0.333333333}


class TestABudgetInVain:
    """A stage that pauses in 5% of its calls: copies for fewer than 4 in 100 cannot move p99."""

    def study(
        self, stage_of: StageOf, profile_of: ProfileOf, budget: float, **stage: Any
    ) -> tuple[Note, ...]:
        rng = np.random.default_rng(5)
        pauses = np.where(rng.random(4000) < 0.05, 200.0, 0.0)
        profile = profile_of(stage_of("paused", rng.uniform(9, 11, 4000) + pauses, **stage))
        return study_plan(profile, PlanSettings(budgets=Budgets(reissue=budget), created=CREATED)).notes

    def test_a_useless_budget_is_noted_with_one_that_would_help(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        notes = self.study(stage_of, profile_of, 0.01)
        [useless], [better] = of_kind(notes, NoP99Cut), of_kind(notes, LargerBudgetHelps)
        assert useless.after_ms > 0.99 * useless.before_ms
        assert 0.02 < better.budget <= 0.16
        assert better.cut > 0.5
        assert not of_kind(self.study(stage_of, profile_of, better.budget), NoP99Cut)

    def test_no_budget_beyond_a_fifth_of_the_work_is_advised(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        rng = np.random.default_rng(6)
        profile = profile_of(stage_of("even", rng.uniform(9, 11, 4000)))
        settings = PlanSettings(budgets=Budgets(reissue=0.01), created=CREATED)
        assert of_kind(study_plan(profile, settings).notes, NoBudgetHelps) == [NoBudgetHelps(0.05, 0.2)]
        assert not of_kind(study_plan(profile, settings).notes, LargerBudgetHelps)

    def test_a_note_says_when_no_budget_would_help(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        notes = self.study(stage_of, profile_of, 0.01, reissuable=False)
        assert len(of_kind(notes, NoP99Cut)) == 1
        assert NoStageReissuable() in notes

    def test_without_a_budget_there_is_no_note(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        assert not of_kind(self.study(stage_of, profile_of, 0.0), NoP99Cut)
