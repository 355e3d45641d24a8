"""Worth of budgets: no stage gets a share that cuts nothing, and the knee is the smallest that buys as much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.advice.composition import advise
from kwiken.tail.advice.contents import AddReplica, ConfirmReplicas, Doubt, RequestKind
from kwiken.tail.advice.worth import Worth, knee
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.queueing.load.decompose import QueueSettings

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
KIND = RequestKind(name="page", requests=600, p50_ms=1.0, p99_ms=2.0)


def stalling(stage_of: StageOf, profile_of: ProfileOf, requests: int = 1600) -> Profile:
    """A stage that stalls in 4% of its calls beside one of 0.6 ms that never does."""
    rng = np.random.default_rng(8)
    return profile_of(
        stage_of("stalls", rng.lognormal(2, 0.2, requests) + 300.0 * (rng.random(requests) < 0.04)),
        stage_of("quick", 0.6 * rng.lognormal(0, 0.3, requests), after=("stalls",)),
    )


def with_replicas(profile: Profile, **replicas: int | None) -> Profile:
    return replace(
        profile,
        stages=tuple(replace(stage, replicas=replicas.get(stage.name)) for stage in profile.stages),
    )


def test_no_share_goes_to_a_stage_whose_copies_cut_nothing(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = stalling(stage_of, profile_of)
    for budget in (0.01, 0.05, 0.2):
        plan = study_plan(
            profile, PlanSettings(budgets=Budgets(reissue=budget), created="", insurance=0.0)
        ).plan
        assert {name for name, stage in plan.stages.items() if stage.reissue} == {"stalls"}


def test_the_budget_is_the_knee_where_none_is_given(stage_of: StageOf, profile_of: ProfileOf) -> None:
    found, plan = advise(stalling(stage_of, profile_of), kind=KIND)
    assert [each.budget for each in found.worth] == [0.01, 0.02, 0.03, 0.05]
    assert found.knee == found.budget
    best = max(each.cut for each in found.worth)
    chosen = next(each for each in found.worth if each.budget == found.knee)
    assert chosen.cut >= 0.9 * best
    assert all(each.cut < 0.9 * best for each in found.worth if each.budget < chosen.budget)
    assert plan is not None
    assert plan.budgets.reissue == found.budget
    assert found.judgement is not None
    assert found.judgement.arm("plan").cuts["p99_ms"].share == chosen.cut


def test_the_knee_needs_certainty() -> None:
    def bought(budget: float, cut: float, low: float) -> Worth:
        return Worth(
            budget=budget,
            plan_budget=budget,
            p99_ms=1.0,
            cut=cut,
            low=low,
            high=1.0,
            spent=budget,
            stages=(),
        )

    assert knee([]) is None
    assert knee([bought(0.01, 0.3, 0.0), bought(0.02, 0.3, -0.1)]) is None
    some = knee([bought(0.01, 0.29, 0.0), bought(0.02, 0.28, 0.1), bought(0.05, 0.3, 0.1)])
    assert some is not None
    assert some.budget == 0.02


def test_copies_are_not_advised_where_all_calls_went_to_one_replica(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    profile = stalling(stage_of, profile_of)
    found, plan = advise(with_replicas(profile, stalls=1, quick=1), kind=KIND)
    assert (found.doubt, found.settings, plan) == (Doubt.ONE_REPLICA, (), None)
    assert found.judgement is None, "what a second replica would buy is not known"
    assert AddReplica(stages=("stalls",)) in found.steps, "the one that makes the tail"
    mixed, plan = advise(with_replicas(profile, stalls=1, quick=3), kind=KIND)
    assert all(each.stage != "stalls" for each in mixed.settings)
    assert plan is None or plan.stages["stalls"].reissue is None
    assert any(isinstance(step, AddReplica) and step.stages == ("stalls",) for step in mixed.steps)
    unknown, _ = advise(profile, kind=KIND)
    assert ConfirmReplicas(stages=("stalls",)) in unknown.steps
    known, _ = advise(with_replicas(profile, stalls=2, quick=3), kind=KIND)
    assert [each.replicas for each in known.settings] == [2]
    assert not any(isinstance(step, ConfirmReplicas) for step in known.steps)


@pytest.mark.parametrize("seed", range(4))
def test_cuts_and_spends_that_budgets_are_worth_rise_in_order(
    seed: int, stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """About as many stalls as a hundredth of the requests: what a budget buys of p99 later is chance."""
    rng = np.random.default_rng(seed)
    profile = profile_of(
        stage_of("a", rng.lognormal(2, 0.3, 500) + 200.0 * (rng.random(500) < 0.012)),
        stage_of("b", rng.lognormal(1, 0.5, 500) + 90.0 * (rng.random(500) < 0.008), after=("a",)),
    )
    rows = advise(profile, budget=0.04, kind=KIND)[0].worth
    assert [each.budget for each in rows] == [0.01, 0.02, 0.03, 0.04, 0.05]
    for name, sign in (("cut", 1), ("spent", 1), ("p99_ms", -1)):
        column = [sign * getattr(each, name) for each in rows]
        assert column == sorted(column), name
    assert rows[0].cut >= 0
    for less, more in pairwise(rows):
        assert more.plan_budget in {less.plan_budget, more.budget}
        assert more.cut > less.cut or more.plan_budget == less.plan_budget or more.spent == less.spent


def test_a_lone_stage_gets_copies_only_where_pairs_show_that_they_help(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    profile = with_replicas(stalling(stage_of, profile_of), stalls=1, quick=3)
    settings = PlanSettings(budgets=Budgets(reissue=0.05), created="")
    plan = study_plan(profile, settings).plan
    assert plan.stages["stalls"].reissue is None
    assert plan.expected is not None
    assert [(each.kind, each.stage) for each in plan.expected.doubts] == [("one_replica", "stalls")]
    told = study_plan(profile, replace(settings, queues=QueueSettings(replicas={"stalls": 2}))).plan
    assert told.stages["stalls"].reissue is not None, "the number of replicas is stated"
    pairs = np.column_stack((np.full(60, 300.0), np.full(60, 8.0)))
    first, *others = profile.stages
    shown = replace(first, pairs_ms=pairs, pairs_cut=np.zeros((60, 2), np.bool_))
    raced = study_plan(replace(profile, stages=(shown, *others)), settings).plan
    assert raced.stages["stalls"].reissue is not None
