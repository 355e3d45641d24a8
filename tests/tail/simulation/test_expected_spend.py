"""Expected spend of a plan: the mean over coins rather than one draw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, PartialPolicy, StagePlan
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.stage_replay import StageReplay

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
CREATED = "2026-07-01T12:00:00+00:00"
ROUNDS = 300


def test_what_is_reissued_and_what_is_spent_are_one(stage_of: StageOf, profile_of: ProfileOf) -> None:
    """Profile of one stage, whose share of calls and share of cost are equal."""
    rng = np.random.default_rng(1)
    x = rng.exponential(1, 20_000) + 60 * (rng.random(20_000) < 0.05)
    study = study_plan(
        profile_of(stage_of("a", x)),
        PlanSettings(budgets=Budgets(reissue=0.01), objective="variance", created=CREATED),
    )
    policy, expected = study.plan.stages["a"].reissue, study.plan.expected
    assert policy is not None
    assert expected is not None
    assert policy.probability < 0.9, "a coin, whose draws differ from what is expected"
    assert expected.spent.reissue == pytest.approx(policy.fraction, rel=1e-9)
    assert study.simulation.stage_spent["a"] == pytest.approx(policy.fraction, rel=1e-9)
    assert study.simulation.spent.mean() != pytest.approx(policy.fraction, rel=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_few_requests_do_not_read_more_than_the_budget(
    stage_of: StageOf, profile_of: ProfileOf, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    profile = profile_of(
        stage_of("a", rng.lognormal(3, 1, 100)), stage_of("b", rng.lognormal(2, 1, 100), after=("a",))
    )
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED, seed=seed))
    assert study.plan.expected is not None
    planned = sum(
        study.plan.cost.stages[name] * stage.reissue.fraction
        for name, stage in study.plan.stages.items()
        if stage.reissue is not None
    )
    assert study.plan.expected.spent.reissue == pytest.approx(planned)
    assert study.plan.expected.spent.reissue <= 0.05 * 1.01  # a time-out may miss its share by 1%


def test_a_ledger_takes_its_share_of_what_is_expected(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(8)
    slow = rng.random(6000) < np.where(np.arange(6000) % 2000 < 200, 0.5, 0.0)
    profile = profile_of(stage_of("a", rng.exponential(1, 6000) + 50 * slow))
    free, kept = (
        study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.04), created=CREATED, ledger=terms))
        for terms in (None, LedgerTerms(peak_factor=1.0, floor_per_s=0.0))
    )
    assert free.plan.expected is not None
    assert kept.plan.expected is not None
    assert 0.3 < kept.simulation.refused < 1
    left = 1 - kept.simulation.refused
    assert kept.plan.expected.spent.reissue == pytest.approx(left * free.plan.expected.spent.reissue)
    low, high = kept.plan.expected.bounds.spent["reissue"]
    assert low < kept.plan.expected.spent.reissue < high


@pytest.mark.parametrize(
    "plan",
    [
        StagePlan(reissue=Reissue(after_ms=8.0, probability=0.3)),
        StagePlan(reissue=Reissue(after_ms=5.0, probability=0.5, copies=3)),
        StagePlan(
            reissue=Reissue(after_ms=8.0, probability=0.3),
            partial=PartialPolicy(progress=0.75, wait_ms=1.0, cutoff_ms=30.0, weight=1.0, loss=0.1),
        ),
    ],
)
def test_expectation_is_what_draws_come_to_on_average(stage_of: StageOf, plan: StagePlan) -> None:
    stage = stage_of("a", np.random.default_rng(3).exponential(10, (200, 4)))
    rows = np.tile(np.arange(200), ROUNDS)
    outcome = StageReplay(stage, 1.0, np.random.default_rng(5)).play(rows, plan, None)
    assert outcome.copies.mean() > 0.2
    assert outcome.expected.mean() == pytest.approx(outcome.copies.mean(), rel=0.01)
    drawn, meant = (
        values.reshape(ROUNDS, 200).mean(axis=1).std() for values in (outcome.copies, outcome.expected)
    )
    assert meant < 0.6 * drawn
    if plan.partial is None and plan.reissue is not None and plan.reissue.copies == 1:
        late = (stage.calls_ms > 8.0).sum(axis=1)
        assert outcome.expected == pytest.approx(np.tile(0.3 * late, ROUNDS))


def test_without_a_coin_nothing_is_left_to_expect(stage_of: StageOf) -> None:
    stage = stage_of("a", np.random.default_rng(3).exponential(10, (200, 4)))
    plan = StagePlan(reissue=Reissue(after_ms=6.0, copies=2))
    outcome = StageReplay(stage, 1.0, np.random.default_rng(5)).play(np.arange(200), plan, None)
    assert (outcome.expected == outcome.copies).all()
