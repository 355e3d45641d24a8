"""Judgement of plans on later requests, with the ledger in force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.model.service.stage import Reissue
from kwiken.tail.judging.blocks import judge_blocks
from kwiken.tail.judging.judge_plan import judge, judge_recordings
from kwiken.tail.judging.judged_plans import EVEN, HINDSIGHT, PLAN, rivals
from kwiken.tail.judging.judgement_document import Judgement
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
CREATED = "2026-01-01T00:00:00Z"
REQUESTS = 3000
NO_FLOOR = LedgerTerms(floor_per_s=0.0)


@pytest.fixture
def moving(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """Three stages in a row; in the first half `a` stalls in bursts, in the second half `c`."""
    rng = np.random.default_rng(3)
    half = np.arange(REQUESTS) < REQUESTS // 2
    fault = (np.arange(REQUESTS) % 500 > 400) & (rng.random(REQUESTS) < 0.1)
    return profile_of(
        stage_of("a", rng.lognormal(1, 0.3, REQUESTS) + 200.0 * (fault & half)),
        stage_of("b", rng.lognormal(1, 0.3, REQUESTS), after=("a",)),
        stage_of("c", rng.lognormal(1, 0.3, REQUESTS) + 200.0 * (fault & ~half), after=("b",)),
    )


def plan_of(profile: Profile, budget: float, **policies: Reissue) -> Plan:
    made = study_plan(profile, PlanSettings(budgets=Budgets(reissue=budget), created=CREATED)).plan
    stages = {name: StagePlan(reissue=policies.get(name)) for name in made.stages}
    return msgspec.structs.replace(
        made, stages=stages, cost=Costs("calls", dict.fromkeys(made.stages, 1 / 3))
    )


def test_a_plan_without_policies_changes_nothing_and_spends_nothing(moving: Profile) -> None:
    found = judge(plan_of(moving, 0.05), moving)
    arm = found.arm(PLAN)
    assert arm.after == found.before
    assert (arm.spent, arm.denied, arm.spent_between) == (0.0, 0.0, (0.0, 0.0))
    assert {(cut.share, cut.low, cut.high) for cut in arm.cuts.values()} == {(0.0, 0.0, 0.0)}
    assert [outcome.after for outcome in arm.stretches] == [stretch.before for stretch in found.stretches]


def test_spend_is_the_share_of_calls_that_are_late(moving: Profile) -> None:
    found = judge(plan_of(moving, 0.05, a=Reissue(after_ms=100.0, probability=1.0, fraction=0.05)), moving)
    late = float((moving.stage("a").calls_ms > 100).mean())
    assert found.arm(PLAN).spent == pytest.approx(late / 3, rel=1e-6)
    assert found.arm(PLAN).denied == 0


def test_stretches_divide_the_requests(moving: Profile) -> None:
    found = judge(plan_of(moving, 0.05, c=Reissue(after_ms=50.0, probability=1.0, fraction=0.05)), moving)
    assert found.requests == sum(stretch.requests for stretch in found.stretches) == REQUESTS
    assert len(found.stretches) <= 24
    starts = [stretch.start_s for stretch in found.stretches]
    assert starts == sorted(starts)
    for arm in found.arms:
        weighted = [o.spent * s.requests for o, s in zip(arm.stretches, found.stretches, strict=True)]
        assert sum(weighted) / REQUESTS == pytest.approx(arm.spent)


def test_the_ledger_keeps_the_budget_where_no_floor_serves_the_copies(moving: Profile) -> None:
    greedy = plan_of(
        moving, 0.02, **dict.fromkeys("abc", Reissue(after_ms=0.0, probability=1.0, fraction=1.0))
    )
    kept = judge(msgspec.structs.replace(greedy, ledger=NO_FLOOR), moving).arm(PLAN)
    burst = 50 / REQUESTS
    assert 0.015 < kept.spent <= 0.02 * (1 + burst)
    assert kept.denied > 0.95
    floored = judge(greedy, moving).arm(PLAN)
    assert floored.spent > kept.spent
    sample = judge(greedy, moving, sampled=1e-6).arm(PLAN)
    assert sample.spent == pytest.approx(kept.spent, rel=0.1), (
        "the floor serves all requests, not the sample's"
    )


def test_even_and_hindsight_keep_the_budget_and_the_costs_of_the_plan(moving: Profile) -> None:
    half = np.arange(REQUESTS // 2)
    earlier, later = part_of(moving, half), part_of(moving, half + REQUESTS // 2)
    plan = study_plan(earlier, PlanSettings(budgets=Budgets(reissue=0.03), created=CREATED)).plan
    found = judge(plan, later, earlier=earlier)
    assert {(arm.way, arm.correlation) for arm in found.arms} == {
        (way, rho) for way in (PLAN, EVEN, HINDSIGHT) for rho in (None, 0.5)
    }
    assert found.arm(HINDSIGHT).spent == pytest.approx(0.03, rel=0.05)
    assert found.arm(HINDSIGHT).cuts["p99_ms"].share > found.arm(PLAN).cuts["p99_ms"].share
    for arm in found.arms:
        for cut in arm.cuts.values():
            assert cut.low <= cut.high
    with pytest.raises(KeyError):
        found.arm(PLAN, 0.3)


def test_recordings_are_judged_as_if_each_stood_alone(moving: Profile) -> None:
    half = REQUESTS // 2
    parts = {
        "later": part_of(moving, np.arange(half, REQUESTS)),
        "earlier": part_of(moving, np.arange(half)),
    }
    plan = plan_of(moving, 0.05, a=Reissue(after_ms=100.0, probability=1.0, fraction=0.05))
    found = judge_recordings(plan, parts)
    assert [each.recording for each in found.stretches] == ["earlier", "later"], "in order of time"
    assert found.before == judge(plan, moving).before
    for i, name in enumerate(("earlier", "later")):
        alone = judge(plan, parts[name])
        outcome = found.arm(PLAN).stretches[i]
        assert outcome.spent == pytest.approx(alone.arm(PLAN).spent, rel=0.01)
        assert outcome.after.p99_ms == pytest.approx(alone.arm(PLAN).after.p99_ms, rel=0.05)
    assert found.arm(PLAN).stretches[1].spent == 0, "`a` stalls in the first half only"


def test_recordings_that_cannot_be_judged_are_named(
    moving: Profile, stage_of: StageOf, profile_of: ProfileOf
) -> None:
    plan = plan_of(moving, 0.05)
    with pytest.raises(InputError, match="few: judging needs at least 10 requests"):
        judge_recordings(plan, {"all": moving, "few": part_of(moving, np.arange(3))})
    with pytest.raises(InputError, match=r"other: .*stage 'a' is not in the profile; it has: z"):
        judge_recordings(plan, {"all": moving, "other": profile_of(stage_of("z", np.arange(1.0, 99.0)))})
    with pytest.raises(InputError, match="recordings: there is none"):
        judge_recordings(plan, {})


def test_insurance_helps_where_the_fault_has_moved(moving: Profile) -> None:
    half = np.arange(REQUESTS // 2)
    earlier, later = part_of(moving, half), part_of(moving, half + REQUESTS // 2)
    cuts = {}
    for insurance in (0.0, 0.1):
        settings = PlanSettings(budgets=Budgets(reissue=0.05), insurance=insurance, created=CREATED)
        cuts[insurance] = judge(study_plan(earlier, settings).plan, later).arm(PLAN).cuts["p99_ms"].share
    assert cuts[0.1] > cuts[0.0] + 0.1


def test_blocks_are_planned_on_what_came_before(moving: Profile) -> None:
    found = judge_blocks(moving, 4, budget=0.05)
    assert [stretch.requests for stretch in found.stretches] == [750, 750, 750]
    assert found.requests == 2250
    last = np.arange(REQUESTS) >= 2250
    slower = slowed(moving, last)
    again = judge_blocks(slower, 4, budget=0.05)
    for one, other in zip(found.arm(PLAN).stretches[:2], again.arm(PLAN).stretches[:2], strict=True):
        assert one == other, "what comes later must not change a plan or its judgement"
    assert found.arm(PLAN).stretches[2] != again.arm(PLAN).stretches[2]


def slowed(profile: Profile, slower: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Profile:
    """The profile with some requests ten times as slow."""
    factor = np.where(slower, 10.0, 1.0)
    return replace(
        profile,
        stages=tuple(replace(s, calls_ms=s.calls_ms * factor[:, None]) for s in profile.stages),
        latency_ms=profile.latency_ms * factor,
    )


def test_a_judgement_repeats_for_a_seed_and_as_json(moving: Profile) -> None:
    found = judge_blocks(moving, 2, budget=0.01, seed=5)
    assert judge_blocks(moving, 2, budget=0.01, seed=5) == found
    assert msgspec.json.decode(msgspec.json.encode(found), type=Judgement) == found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"blocks": 1}, "blocks: must be 2 or more"),
        ({"blocks": 400}, "400 blocks need 4000 requests"),
        ({"budget": 0.0}, "budget: must be a share"),
        ({"budget": float("nan")}, "budget: must be a share"),
        ({"sampled": 0.0}, "sampled: must be a share"),
        ({"sampled": 1.5}, "sampled: must be a share"),
    ],
)
def test_blocks_check_their_settings(moving: Profile, changes: dict[str, Any], words: str) -> None:
    settings: dict[str, Any] = {"blocks": 2, "budget": 0.05, **changes}
    with pytest.raises(InputError, match=words):
        judge_blocks(moving, **settings)


def test_what_cannot_be_judged_is_refused(moving: Profile, stage_of: StageOf, profile_of: ProfileOf) -> None:
    plan = plan_of(moving, 0.05)
    with pytest.raises(InputError, match="at least 10 requests, and there are 9"):
        judge(plan, part_of(moving, np.arange(9)))
    with pytest.raises(InputError, match="sampled"):
        judge(plan, moving, sampled=2.0)
    with pytest.raises(InputError, match="stage 'a' is not in the profile; it has: z"):
        judge(plan, profile_of(stage_of("z", np.ones(100))))


def test_all_ways_may_copy_the_calls_that_the_plan_may_copy(moving: Profile) -> None:
    """As where a plan was made with `--copyable` or `--once`, and the judged traces were read without them."""
    made = PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED)
    plan = study_plan(moving, made).plan
    writes = replace(moving, stages=tuple(replace(stage, reissuable=False) for stage in moving.stages))
    found = judge(plan, writes, correlations=(None,))
    same = judge(plan, moving, correlations=(None,))
    assert [arm.cuts for arm in found.arms] == [arm.cuts for arm in same.arms]
    only = replace(
        moving, stages=tuple(replace(stage, reissuable=stage.name == "a") for stage in moving.stages)
    )
    kept = study_plan(only, made).plan
    assert {name for name, stage in kept.stages.items() if stage.once} == {"b", "c"}
    for rival in rivals(kept, moving, moving, seed=0).values():
        assert {name for name, stage in rival.stages.items() if stage.reissue} == {"a"}


def test_hindsight_may_spend_what_the_floor_let_the_plan_spend(moving: Profile) -> None:
    plan = plan_of(moving, 0.01)
    spent = [
        sum(stage.reissue.fraction for stage in made.stages.values() if stage.reissue)
        for made in (rivals(plan, moving, moving, spent=each, seed=0)[HINDSIGHT] for each in (0.0, 0.03))
    ]
    assert spent[1] > 2 * spent[0]
    assert rivals(plan, moving, moving, spent=0.03, seed=0)[HINDSIGHT].budgets == plan.budgets
