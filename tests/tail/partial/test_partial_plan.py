"""Utility budgets: curves of variance against loss, budgets kept on later requests, and notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, PartialPolicy, Plan, SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.partial.loss_budget import PartialSettings, policy_of, shortened, study_partial
from kwiken.tail.partial.loss_curve import FanOutVisits, loss_curve
from kwiken.tail.partial.notes import (
    FewShards,
    LossesAddedUp,
    LossTooSmall,
    NoFanOut,
    NoStopRuleHelps,
    UtilityKeptBack,
)
from kwiken.tail.partial.stop_rules import StopRule, apply_rule
from kwiken.tail.planning.levers import ReissueSettings, raced_calls, tuned_with_copies
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.stage_replay import stop_times
from kwiken.tail.simulation.trace_driven import simulate
from papers.kwiken.partial_answers.simple_rules import tune_fixed_timeout
from papers.worlds.populations.services import fan_out_queries
from tests.support.models.notes import of_kind

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]

CREATED = "2026-01-01T00:00:00Z"


def two_fan_outs(stage_of: StageOf, profile_of: ProfileOf, *, requests: int, seed: int) -> Profile:
    """A fan-out with bursts of late shards, a narrow one with rare pauses, and a single call."""
    rng = np.random.default_rng(seed)
    narrow = rng.lognormal(2, 0.3, (requests, 8))
    narrow[rng.random(narrow.shape) < 0.002] += 150
    return profile_of(
        stage_of("wide", fan_out_queries(requests, rng, responders=60)),
        stage_of("narrow", narrow, after=("wide",)),
        stage_of("last", rng.lognormal(1, 0.5, requests), after=("narrow",)),
    )


def partial_of(plan: Plan, stage: str) -> PartialPolicy:
    policy = plan.stages[stage].partial
    assert policy is not None
    return policy


def test_loss_budgets_hold_on_requests_not_seen(stage_of: StageOf, profile_of: ProfileOf) -> None:
    losses, gains = [], []
    for seed in range(4):
        profile = two_fan_outs(stage_of, profile_of, requests=1500, seed=seed)
        study = study_plan(profile, PlanSettings(budgets=Budgets(utility_loss=0.002), created=CREATED))
        later = two_fan_outs(stage_of, profile_of, requests=4000, seed=100 + seed)
        found = simulate(later, study.plan, requests=8000)
        losses.append(found.utility_loss)
        gains.append(1 - found.after_ms.var() / found.before_ms.var())
        assert found.reissue == 0
    assert np.mean(np.array(losses) <= 0.002) >= 0.75
    assert max(losses) <= 0.003
    assert np.mean(losses) >= 0.001
    assert np.mean(gains) > 0.25


def test_a_curve_falls_with_the_loss_and_starts_at_waiting_for_all() -> None:
    calls = fan_out_queries(1500, np.random.default_rng(2), responders=80)
    stage = _stage(calls)
    fan_out = FanOutVisits.of(stage)
    curve = loss_curve(fan_out, most=0.01)
    assert curve.fraction[0] == 0
    assert curve.rules[0] is None
    assert curve.variance[0] == pytest.approx(calls.max(axis=1).var())
    assert (np.diff(curve.fraction) > 0).all()
    assert curve.fraction[-1] <= 0.01 * (1 + 1e-9)
    assert (np.diff(curve.hull) <= 1e-9).all()
    assert (curve.hull <= curve.variance + 1e-9).all()
    assert curve.variance[-1] < 0.2 * curve.variance[0]
    for rule, loss, variance in zip(curve.rules[1:], curve.fraction[1:], curve.variance[1:], strict=True):
        assert rule is not None
        latency, lost = apply_rule(rule, fan_out.responders)
        assert lost.mean() == pytest.approx(loss)
        assert latency.var() == pytest.approx(variance)


def test_skipped_visits_count_as_no_latency_and_no_loss() -> None:
    calls = fan_out_queries(2000, np.random.default_rng(3), responders=30)
    calls[::2] = np.nan
    fan_out = FanOutVisits.of(_stage(calls))
    assert fan_out.visits == 0.5
    rule = fan_out.tuned(0.01)
    assert rule is not None
    loss, variance = fan_out.moments(rule)
    latency = np.zeros(2000)
    latency[1::2], lost = apply_rule(rule, fan_out.responders)
    assert loss == pytest.approx(lost.mean() / 2)
    assert variance == pytest.approx(latency.var())
    assert loss <= 0.01 * (1 + 1e-9)


def test_shards_that_never_hold_the_best_answer_are_left_out_for_nothing(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(4)
    calls = rng.lognormal(1, 0.2, (2000, 6))
    slow = rng.random(2000) < 0.1
    calls[slow, 5] += 100
    worth = np.zeros(calls.shape)
    worth[np.arange(2000), rng.integers(0, 5, 2000)] = 1.0  # the last shard is never the best
    known = profile_of(replace(stage_of("wide", calls), worth=worth))
    blind = profile_of(stage_of("wide", calls))
    cuts = {}
    for name, profile in (("known", known), ("blind", blind)):
        study = study_plan(profile, PlanSettings(budgets=Budgets(utility_loss=0.002), created=CREATED))
        found = simulate(known, study.plan, requests=20_000)
        cuts[name] = 1 - found.after.p99_ms / found.before.p99_ms
        assert found.utility_loss <= 0.003
    assert cuts["known"] > 0.7
    assert cuts["blind"] < 0.1


def test_only_the_fan_outs_that_are_named_answer_in_part(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = two_fan_outs(stage_of, profile_of, requests=1500, seed=1)
    budgets = Budgets(utility_loss=0.01)
    every = study_plan(profile, PlanSettings(budgets=budgets, created=CREATED)).plan
    assert {name for name, stage in every.stages.items() if stage.partial is not None} == {"wide", "narrow"}
    one = study_plan(profile, PlanSettings(budgets=budgets, created=CREATED, partial=["narrow"])).plan
    assert one.stages["wide"].partial is None
    assert partial_of(one, "narrow").loss > partial_of(every, "narrow").loss
    none = study_plan(profile, PlanSettings(budgets=Budgets(), created=CREATED, partial=["narrow"]))
    assert none.plan.stages["narrow"].partial is None
    assert none.plan.expected is not None
    assert none.plan.expected.spent.utility_loss == 0


def test_a_service_whose_shards_slow_down_gets_tighter_rules(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(5)
    calls = rng.lognormal(1, 0.5, (4000, 20))
    steady = profile_of(stage_of("wide", calls))
    drifting = profile_of(stage_of("wide", calls * np.linspace(1, 1.6, 4000)[:, None]))
    settings = PartialSettings()
    loose, tight = (study_partial(profile, 0.005, settings) for profile in (steady, drifting))
    assert tight.apportioned < 0.8 * loose.apportioned
    assert UtilityKeptBack(tight.apportioned) in tight.notes


def test_losses_of_two_stages_are_added_with_a_note(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = two_fan_outs(stage_of, profile_of, requests=2000, seed=6)
    study = study_plan(profile, PlanSettings(budgets=Budgets(utility_loss=0.004), created=CREATED))
    assert sum(partial_of(study.plan, name).loss for name in ("wide", "narrow")) <= 0.004
    assert LossesAddedUp(("wide", "narrow")) in study.notes
    weights = {"wide": 1.0, "narrow": 1.0, "last": 2.0}
    weighed = study_plan(
        profile, PlanSettings(budgets=Budgets(utility_loss=0.004), created=CREATED, utility_weights=weights)
    )
    assert not of_kind(weighed.notes, LossesAddedUp)
    assert partial_of(weighed.plan, "wide").weight == 0.25
    assert weighed.simulation.utility_loss == pytest.approx(
        0.25 * sum(weighed.simulation.stage_loss.values())
    )


class TestNotes:
    def test_no_fan_out(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        profile = profile_of(stage_of("a", np.random.default_rng(7).exponential(1, 500)))
        study = study_plan(profile, PlanSettings(budgets=Budgets(utility_loss=0.1), created=CREATED))
        assert NoFanOut() in study.notes
        assert study.simulation.utility_loss == 0

    def test_too_few_requests_for_so_small_a_loss(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        profile = profile_of(stage_of("wide", np.random.default_rng(8).exponential(1, (100, 4))))
        study = study_plan(profile, PlanSettings(budgets=Budgets(utility_loss=0.001), created=CREATED))
        assert study.plan.stages["wide"].partial is None
        assert LossTooSmall("wide", 100, loss=0.001, least_loss=0.0025) in study.notes

    def test_fewer_shards_than_the_inverse_of_the_loss(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        calls = np.random.default_rng(9).lognormal(1, 1, (5000, 8))
        study = study_plan(
            profile_of(stage_of("wide", calls)),
            PlanSettings(budgets=Budgets(utility_loss=0.001), created=CREATED),
        )
        assert FewShards("wide", 8, loss=0.001) in study.notes
        assert study.simulation.after.p999_ms < 0.9 * study.simulation.before.p999_ms

    def test_equal_calls_get_no_stop_rule(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        study = study_plan(
            profile_of(stage_of("wide", np.full((2000, 8), 3.0))),
            PlanSettings(budgets=Budgets(utility_loss=0.01), created=CREATED),
        )
        assert study.plan.stages["wide"].partial is None
        assert NoStopRuleHelps("wide") in study.notes


def test_a_progress_is_written_so_that_a_runtime_counts_the_same_shards() -> None:
    for shards in range(2, 200):
        for needed in range(1, shards):
            rule = StopRule(10.0, 1.0, needed / shards)
            progress = policy_of(rule, 0.0, shards, 1.0).progress
            assert int(np.ceil(progress * shards)) == needed


def test_shortened_calls_end_with_their_visit(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = two_fan_outs(stage_of, profile_of, requests=800, seed=10)
    study = study_partial(profile, 0.01, PartialSettings())
    cut = shortened(profile, study.policies)
    for stage in profile.stages:
        found = cut.stage(stage.name)
        if stage.name not in study.policies:
            assert found is stage
            continue
        assert (found.calls_ms <= stage.calls_ms).all()
        rule = study.policies[stage.name]
        stop = StopRule(
            rule.cutoff_ms or np.inf, rule.wait_ms if rule.wait_ms is not None else np.inf, rule.progress
        )
        latency, _ = apply_rule(stop, FanOutVisits.of(stage).responders)
        assert np.allclose(found.latency_ms, latency)


def test_stop_rules_stay_where_a_ledger_refuses_copies(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(11)
    calls = rng.exponential(1, (4000, 5))
    burst = np.arange(4000) % 1000 < 100
    calls[burst, 0] += 40 * (rng.random(burst.sum()) < 0.5)
    profile = profile_of(stage_of("wide", calls))
    study = study_plan(
        profile,
        PlanSettings(
            budgets=Budgets(reissue=0.02, utility_loss=0.003),
            created=CREATED,
            ledger=LedgerTerms(peak_factor=1.0, floor_per_s=0.0),
        ),
    )
    assert study.simulation.refused > 0.1
    waited = simulate(profile, study.plan, requests=20_000, seed=1)
    assert study.simulation.utility_loss > waited.utility_loss  # refused copies leave more to be lost
    assert study.simulation.after.p999_ms < study.simulation.before.p999_ms


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (PartialSettings(stages=["last"]), "stage 'last' has one shard"),
        (
            PartialSettings(stages=["nosuch"]),
            "stage 'nosuch' is not in the profile; its fan-outs: wide, narrow",
        ),
        (PartialSettings(weights={"wide": 1.0}), "lacks a weight for stage 'narrow'"),
        (
            PartialSettings(weights={"wide": 1.0, "narrow": 1.0, "narow": 1.0}),
            "stage 'narow' is not in the profile; it has: wide, narrow, last",
        ),
        (PartialSettings(weights={"wide": 1.0, "narrow": 0.0}), "must be a finite number above 0"),
    ],
)
def test_what_cannot_be_partial_is_refused(
    stage_of: StageOf, profile_of: ProfileOf, settings: PartialSettings, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        study_partial(two_fan_outs(stage_of, profile_of, requests=100, seed=0), 0.01, settings)


def test_the_dynamic_rule_beats_a_fixed_time_out_in_the_plan() -> None:
    calls = fan_out_queries(2000, np.random.default_rng(12), responders=100)
    fan_out = FanOutVisits.of(_stage(calls))
    rule = fan_out.tuned(0.001)
    assert rule is not None
    fixed = tune_fixed_timeout(fan_out.responders, loss=0.001)
    assert fan_out.moments(rule)[1] < 0.9 * fixed.variance


def _stage(calls: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> StageProfile:

    return StageProfile(
        name="wide",
        match=SpanMatch(service="s", operation="wide"),
        calls_ms=calls,
        censored=np.zeros(calls.shape, dtype=np.bool_),
    )


def test_what_a_rule_loses_is_judged_on_copies_that_it_was_not_tuned_on(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(5)
    calls = rng.lognormal(2.3, 0.3, (3000, 20))
    pauses = rng.random(calls.shape) < 0.02
    calls[pauses] *= 20 * rng.random(pauses.sum())
    profile = profile_of(stage_of("wide", calls))
    policies = {"wide": Reissue(after_ms=20.0, fraction=0.03)}
    draws = [raced_calls(profile, policies, ("wide",), seed=1000 + draw)["wide"] for draw in range(8)]
    missed, found = [], []
    for seed in range(8):
        settings = PartialSettings(seed=seed), ReissueSettings(seed=seed)
        rule = tuned_with_copies(profile, policies, 0.001, *settings).policies["wide"]
        lost = [
            float((calls > stop_times(calls, (~np.isnan(calls)).sum(axis=1), rule)[:, None]).mean())
            for calls in draws
        ]
        found.append(float(np.mean(lost)))
        missed.append(abs(found[-1] / rule.loss - 1))
    assert max(found) < 1.1 * 0.001
    assert np.mean(missed) < 0.15
