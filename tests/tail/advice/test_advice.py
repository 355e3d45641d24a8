"""Advice on one kind of requests: what it rests on, its settings, its doubts and its next steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.tail.advice.composition import advise
from kwiken.tail.advice.contents import (
    Advice,
    ConfirmReads,
    ConfirmWrites,
    Doubt,
    OutOfReach,
    RecordAgain,
    RecordBusyTime,
    RecordLonger,
    RequestKind,
    SharedCall,
    TraceRareKinds,
)
from kwiken.tail.judging.judge_plan import judge
from kwiken.tail.judging.judgement_document import Cut, Judgement
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from tests.support.models.profiles import small_profile

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
KIND = RequestKind(name="page", requests=600, p50_ms=1.0, p99_ms=2.0)


def advised(profile: Profile, *, budget: float = 0.05, others: tuple[RequestKind, ...] = ()) -> Advice:
    return advise(profile, budget=budget, kind=KIND, others=others)[0]


def steps_of(found: Advice) -> dict[type[object], object]:
    return {type(step): step for step in found.steps}


def test_the_judgement_is_that_of_a_plan_made_from_the_earlier_half() -> None:
    profile = small_profile(700)
    found = advised(profile)
    earlier, later = part_of(profile, np.arange(350)), part_of(profile, np.arange(350, 700))
    made = PlanSettings(budgets=Budgets(reissue=0.05), created="", insurance=0.0)
    assert found.judgement == judge(study_plan(earlier, made).plan, later, earlier=earlier)
    assert found.judgement is not None
    assert found.judgement.requests == 350
    assert found.behind_p99 == 3


def test_the_settings_are_those_of_the_plan_made_from_all_requests() -> None:
    profile = small_profile(700)
    found, plan = advise(profile, budget=0.05, kind=KIND, created="2026-01-01T00:00:00Z")
    settings = PlanSettings(budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z", insurance=0.0)
    study = study_plan(profile, settings)
    assert plan == study.plan
    chosen = {name: stage.reissue for name, stage in study.plan.stages.items() if stage.reissue is not None}
    assert {each.stage: each.after_ms for each in found.settings} == {
        name: reissue.after_ms for name, reissue in chosen.items()
    }
    spends = [each.spent for each in found.settings]
    assert spends == sorted(spends, reverse=True)
    lookup = next(each for each in found.settings if each.stage == "lookup")
    assert (lookup.service, lookup.route) == ("search-lookup", "lookup")


def test_the_order_of_the_requests_in_the_profile_does_not_matter() -> None:
    profile = small_profile(400)
    mixed = part_of(profile, np.random.default_rng(5).permutation(400))
    found = advised(mixed).judgement
    assert found is not None
    assert found.before == getattr(advised(profile).judgement, "before", None)


def test_a_stall_that_lasts_is_told_without_doubt(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(1)
    stalls = 300.0 * (rng.random(2400) < 0.03)
    profile = profile_of(
        stage_of("a", rng.lognormal(1, 0.2, 2400) + stalls),
        stage_of("b", rng.lognormal(1, 0.2, 2400), after=("a",)),
    )
    found = advised(profile)
    assert found.doubt is None
    assert found.leading == ("a",)
    assert found.tailed
    assert found.settings[0].stage == "a"
    assert RecordLonger not in steps_of(found)
    assert found.judgement is not None
    assert found.judgement.arm("plan").cuts["p99_ms"].low > 0.5


def test_steady_requests_have_no_tail_to_lower(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("a", 10.0 + np.random.default_rng(2).random(400)))
    found = advised(profile)
    assert not found.tailed
    assert found.doubt is not None


@pytest.mark.parametrize(
    ("requests", "at_once", "copyable", "doubt"),
    [
        (199, False, True, Doubt.FEW_REQUESTS),
        (1, False, True, Doubt.FEW_REQUESTS),
        (200, True, True, Doubt.NO_ORDER),
        (200, False, False, Doubt.NOTHING_TO_COPY),
    ],
)
def test_where_no_plan_can_be_judged_the_tail_is_explained_all_the_same(
    requests: int, at_once: bool, copyable: bool, doubt: Doubt
) -> None:
    profile = small_profile(requests)
    if at_once:
        profile = replace(profile, started_s=np.full(requests, 1.7e9))
    if not copyable:
        profile = replace(profile, stages=tuple(replace(stage, reissuable=False) for stage in profile.stages))
    found, plan = advise(profile, budget=0.05, kind=KIND)
    assert (found.doubt, found.judgement, found.settings, plan) == (doubt, None, (), None)
    assert found.slow[0].requests >= 1
    assert steps_of(found)[RecordLonger] == RecordLonger(requests=requests, needed=2000)


def test_copies_that_gain_nothing_are_told(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("a", np.full(300, 10.0)))
    found = advised(profile)
    assert found.doubt in {Doubt.NO_COPIES, Doubt.ZERO_IN_INTERVAL}
    assert found.leading == ()


def test_a_plan_that_made_later_requests_slower_is_not_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replayed copy never delays its call, so the judgement is made worse by hand."""

    def judged_worse(*args: Any, **options: Any) -> Judgement:
        found = judge(*args, **options)
        cuts = {"p99_ms": Cut(share=-0.2, low=-0.3, high=-0.1)}
        arms = [
            msgspec.structs.replace(arm, cuts=arm.cuts | cuts) if arm.way == "plan" else arm
            for arm in found.arms
        ]
        return msgspec.structs.replace(found, arms=tuple(arms))

    assert advise(small_profile(700), budget=0.05, kind=KIND)[1] is not None
    monkeypatch.setattr("kwiken.tail.advice.composition.judge", judged_worse)
    found, plan = advise(small_profile(700), budget=0.05, kind=KIND)
    assert (found.doubt, found.settings, plan) == (Doubt.WORSE, (), None)
    assert found.judgement is not None
    assert SharedCall not in steps_of(found)


def test_next_steps_follow_from_what_the_traces_lack() -> None:
    profile = small_profile(700)
    stages = tuple(
        replace(stage, writes="INSERT audit") if stage.name == "audit" else stage for stage in profile.stages
    )
    works = np.column_stack([profile.latency_ms * 0.2, profile.latency_ms * 0.8])
    profile = replace(
        profile, stages=stages, service_names=("search-audit", "search-index"), service_ms=works
    )
    rare = RequestKind(name="rare", requests=20, p50_ms=1.0, p99_ms=2.0)
    frequent = msgspec.structs.replace(rare, name="frequent", requests=600)
    found = advised(profile, others=(frequent, rare))
    steps = steps_of(found)
    assert steps[OutOfReach] == OutOfReach(services=("search-index",))
    assert steps[ConfirmWrites] == ConfirmWrites(stages={"audit": "INSERT audit"})
    assert steps[TraceRareKinds] == TraceRareKinds(kinds=("rare",), needed=200)
    assert set(getattr(steps[RecordBusyTime], "stages", ())) == {each.stage for each in found.settings}
    assert ConfirmReads not in steps  # spans of kwiken's own runtime state which calls may run twice


def test_stages_that_are_one_route_to_a_proxy_are_told(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(4)
    first = stage_of("first", rng.lognormal(1, 0.2, 800) + 300.0 * (rng.random(800) < 0.04))
    second = stage_of("second", rng.lognormal(3, 0.2, 800) + 300.0 * (rng.random(800) < 0.04))
    found = advised(profile_of(first, replace(second, after=("first",))))
    assert SharedCall not in steps_of(found)
    same = replace(second, after=("first",), match=first.match)
    found = advised(profile_of(first, same))
    delays = {each.stage: each.after_ms for each in found.settings}
    assert delays["first"] < delays["second"]
    step = steps_of(found)[SharedCall]
    assert step == SharedCall(
        stages=tuple(each.stage for each in found.settings),
        first_ms=delays["first"],
        last_ms=delays["second"],
    )


def test_reads_by_name_are_to_be_confirmed_and_a_change_is_to_be_traced_again(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(3)
    latency = rng.lognormal(2, 0.3, 800) + 100.0 * (rng.random(800) < 0.02)
    latency[400:] += 100.0 * (rng.random(400) < 0.05)
    steps = steps_of(advised(profile_of(stage_of("a", latency))))
    assert steps[ConfirmReads] == ConfirmReads(stages=("a",))
    assert steps[RecordAgain] == RecordAgain(stages=("a",))


@pytest.mark.slow
@settings(max_examples=5)
@given(seed=st.integers(0, 2**31), budget=st.floats(0.005, 0.2))
def test_an_advice_is_the_same_again_and_survives_json(seed: int, budget: float) -> None:
    profile = small_profile(240, seed=seed)
    found = advised(profile, budget=budget)
    assert found == advised(profile, budget=budget)
    text = msgspec.json.encode(found)
    assert msgspec.json.encode(msgspec.json.decode(text, type=Advice)) == text
    assert (found.doubt is None) == (
        found.judgement is not None
        and not found.judgement.arm("plan").cuts["p99_ms"].low
        <= 0
        <= found.judgement.arm("plan").cuts["p99_ms"].high
    )
    assert sum(each.spent for each in found.settings) <= budget * 1.01


@pytest.mark.parametrize("budget", [0.0, -0.1, 1.5, float("nan")])
def test_a_budget_out_of_range_is_refused(budget: float) -> None:
    with pytest.raises(InputError, match="budget: must be a share above 0"):
        advised(small_profile(300), budget=budget)


def test_a_profile_without_requests_is_refused() -> None:
    empty = part_of(small_profile(300), np.arange(0))
    with pytest.raises(InputError, match="no requests"):
        advised(empty)
