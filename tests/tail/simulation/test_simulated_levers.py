"""Partial answers and catch-up in the simulator: utility lost, spend, and no request slower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import Budgets, CatchUpPolicy, PartialPolicy, Plan, StagePlan
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import StopRule, apply_rule
from kwiken.tail.simulation.stage_replay import StageReplay, order_statistic, stop_times, utility_shares
from kwiken.tail.simulation.trace_driven import replay, simulate

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def plan_for(profile: Profile, **stages: StagePlan) -> Plan:
    return Plan(
        version=1,
        service="test",
        created="2026-01-01T00:00:00Z",
        profile=profile.digest,
        budgets=Budgets(reissue=1.0, utility_loss=1.0, catch_up=1.0),
        cost=costs(profile, "calls"),
        stages=stages,
    )


def every(profile: Profile, **stages: StagePlan) -> Any:
    return replay(profile, plan_for(profile, **stages), np.arange(profile.requests))


class TestPartial:
    def test_the_stage_goes_on_when_the_stop_rule_says_so(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        calls = np.random.default_rng(0).lognormal(1, 1, (500, 7))
        calls[np.random.default_rng(1).random(calls.shape) < 0.2] = np.nan
        calls[:, 0] = 3.0
        profile = profile_of(stage_of("wide", calls))
        found = every(
            profile, wide=StagePlan(partial=PartialPolicy(cutoff_ms=8, wait_ms=1, progress=0.6, loss=0))
        )
        latency, lost = apply_rule(StopRule(8, 1, 0.6), Responders.of(calls))
        assert np.allclose(found.after_ms, latency)
        assert np.allclose(found.lost, lost)
        assert found.utility_loss == pytest.approx(lost.mean())
        assert found.stage_loss == pytest.approx({"wide": lost.mean()})
        assert found.reissue == found.catch_up == 0

    def test_a_shard_counts_for_what_its_answer_was_worth(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        calls = np.tile([1.0, 2.0, 9.0], (4, 1))
        worth = np.array([[1, 0, 0], [0, 0, 1], [1, 1, 2], [np.nan, np.nan, np.nan]], dtype=float)
        profile = profile_of(replace(stage_of("wide", calls), worth=worth))
        policy = PartialPolicy(cutoff_ms=5, wait_ms=None, progress=1, loss=0)
        found = every(profile, wide=StagePlan(partial=policy))
        assert found.lost == pytest.approx([0, 1, 1 / 2, 1 / 3])
        quarter = PartialPolicy(cutoff_ms=5, wait_ms=None, progress=1, loss=0, weight=0.25)
        weighed = every(profile, wide=StagePlan(partial=quarter))
        assert weighed.lost == pytest.approx(found.lost / 4)

    def test_copies_come_first_and_none_goes_after_the_stop(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        calls = np.array([[1.0, 1.0, 30.0], [1.0, 1.0, 1.0], [1.0, 20.0, 20.0]])
        profile = profile_of(stage_of("wide", calls))
        stop = PartialPolicy(cutoff_ms=10, wait_ms=None, progress=1, loss=0)
        early = every(profile, wide=StagePlan(partial=stop, reissue=Reissue(after_ms=2)))
        assert early.stage_fraction["wide"] == pytest.approx(3 / 9)
        assert early.utility_loss < every(profile, wide=StagePlan(partial=stop)).utility_loss + 1e-12
        late = every(profile, wide=StagePlan(partial=stop, reissue=Reissue(after_ms=10)))
        assert late.reissue == 0
        assert late.after_ms.tolist() == [10, 1, 10]

    def test_an_answer_of_nothing_is_none(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        profile = profile_of(stage_of("wide", np.array([[4.0, 9.0], [1.0, 2.0]])))
        policy = PartialPolicy(cutoff_ms=0, wait_ms=None, progress=1, loss=0)
        found = every(profile, wide=StagePlan(partial=policy))
        assert found.after_ms.tolist() == [4, 1]
        assert found.lost.tolist() == [0.5, 0.5]

    def test_skipped_visits_lose_nothing(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        calls = np.array([[np.nan, np.nan], [1.0, 9.0]])
        profile = profile_of(stage_of("first", [1.0, 1.0]), stage_of("wide", calls, after=("first",)))
        policy = PartialPolicy(cutoff_ms=5, wait_ms=0, progress=1, loss=0)
        found = every(profile, wide=StagePlan(partial=policy))
        assert found.after_ms.tolist() == [1, 6]
        assert found.lost.tolist() == [0, 0.5]


@given(st.integers(0, 1000), st.floats(0, 30), st.floats(0, 10), st.floats(0, 1))
def test_stop_times_are_those_of_the_rule(seed: int, cutoff: float, wait: float, progress: float) -> None:
    rng = np.random.default_rng(seed)
    calls = rng.lognormal(1, 1, (20, 5))
    calls[rng.random(calls.shape) < 0.3] = np.nan
    calls[:, 2] = 1.0
    count = (~np.isnan(calls)).sum(axis=1)
    policy = PartialPolicy(cutoff_ms=cutoff, wait_ms=wait, progress=progress, loss=0)
    expected, _ = apply_rule(StopRule(cutoff, wait, progress), Responders.of(calls))
    assert np.allclose(stop_times(calls, count, policy), expected)


def test_order_statistics_count_from_one_and_skip_absent_calls() -> None:
    values = np.array([[3.0, 1.0, np.nan], [5.0, 4.0, 6.0]])
    assert order_statistic(values, np.array([2, 2])).tolist() == [3, 5]
    assert order_statistic(values, np.array([1, 3])).tolist() == [1, 6]


def test_answers_of_unknown_worth_count_as_the_mean_of_the_others() -> None:
    calls = np.array([[1.0, 1, 1], [1, 1, np.nan], [1, 1, 1], [1, 1, 1]])
    worth = np.array([[2, np.nan, 4], [0, 0, 9], [np.nan] * 3, [1, 1, 2]], dtype=float)
    shares = utility_shares(calls, worth)
    assert shares is not None
    expected = np.array([[2 / 9, 3 / 9, 4 / 9], [0, 0, 0], [1 / 3] * 3, [0.25, 0.25, 0.5]])
    assert np.allclose(shares, expected)
    assert utility_shares(calls, None) is None
    assert utility_shares(calls, np.full(calls.shape, np.nan)) is None


class TestCatchUp:
    def test_a_running_call_gets_its_copy_when_its_request_becomes_late(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        # The second stage starts at 2 (or 12); its calls of 20 are late at age 10: 8 into the call, or at once.
        first = np.array([2.0, 12.0, 2.0, 2.0])
        second = np.array([20.0, 20.0, 5.0, 5.0])
        profile = profile_of(stage_of("a", first), stage_of("b", second, after=("a",)))
        found = every(profile, b=StagePlan(catch_up=CatchUpPolicy(after_ms=10, reissue=True)))
        copies = found.after_ms - np.array([10.0, 12.0, 0, 0])
        assert set(copies[:2].tolist()) <= {5.0, 20.0, 12.0}
        assert found.after_ms[2:].tolist() == [7, 7]
        assert found.late_spent.tolist() == [0.5, 0.5, 0, 0]
        assert found.catch_up == pytest.approx(0.25)
        assert found.reissue == 0
        assert found.hurried == pytest.approx(1 / 4)

    def test_threads_speed_up_what_starts_late_and_burn_more(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        profile = profile_of(stage_of("a", [2.0, 12.0]), stage_of("b", [20.0, 20.0], after=("a",)))
        found = every(profile, b=StagePlan(catch_up=CatchUpPolicy(after_ms=10, threads=3)))
        assert found.after_ms.tolist() == [22, 22]  # three threads are twice as fast
        assert found.late_spent.tolist() == [0, 0.25]  # and burn half as much again, of half a request's work

    def test_only_work_can_be_shared_by_threads(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        profile = profile_of(
            stage_of("a", [12.0, 12.0]), stage_of("b", [20.0, 20.0], after=("a",), busy_ms=5.0)
        )
        found = every(profile, b=StagePlan(catch_up=CatchUpPolicy(after_ms=10, threads=3)))
        assert found.after_ms.tolist() == [29.5, 29.5]

    def test_a_call_has_one_copy_from_policy_or_catch_up(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        profile = profile_of(stage_of("a", np.full(100, 40.0)))
        late = CatchUpPolicy(after_ms=10, reissue=True)
        for after, own in ((5.0, 1.0), (20.0, 0.0), (10.0, 1.0)):
            found = every(profile, a=StagePlan(reissue=Reissue(after_ms=after), catch_up=late))
            assert found.reissue == own
            assert found.catch_up == 1.0 - own
        both = every(profile, a=StagePlan(reissue=Reissue(after_ms=15, copies=2), catch_up=late))
        assert (both.reissue, both.catch_up) == (1.0, 1.0)

    def test_priority_alone_costs_nothing_and_is_counted(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        profile = profile_of(stage_of("a", [2.0, 12.0]), stage_of("b", [20.0, 20.0], after=("a",)))
        found = every(profile, b=StagePlan(catch_up=CatchUpPolicy(after_ms=10, priority=True)))
        assert found.catch_up == 0
        assert found.hurried == pytest.approx(0.5)
        assert np.array_equal(found.after_ms, found.before_ms)


def three(stage_of: StageOf, profile_of: ProfileOf, seed: int = 0, n: int = 400) -> Profile:
    rng = np.random.default_rng(seed)
    return profile_of(
        stage_of("a", rng.exponential(2, n)),
        stage_of("wide", rng.lognormal(0, 1, (n, 6)), after=("a",)),
        stage_of("c", rng.exponential(3, n), after=("wide",)),
    )


@given(
    st.integers(0, 100),
    st.floats(0, 10),
    st.floats(0.05, 1),
    st.builds(CatchUpPolicy, after_ms=st.floats(0, 12), threads=st.integers(1, 4), reissue=st.booleans()),
    st.floats(0, 20),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_lever_makes_a_request_slower(
    stage_of: StageOf,
    profile_of: ProfileOf,
    seed: int,
    after: float,
    coin: float,
    catch_up: CatchUpPolicy,
    cutoff: float,
) -> None:
    # A stage may only start earlier; so a request is late no earlier than it would be, and is never slower.
    profile = three(stage_of, profile_of, seed)
    own = Reissue(after_ms=after, probability=coin)
    partial = PartialPolicy(cutoff_ms=cutoff, wait_ms=2.0, progress=0.5, loss=0)
    found = every(
        profile,
        a=StagePlan(catch_up=catch_up),
        wide=StagePlan(reissue=own, partial=partial, catch_up=catch_up),
        c=StagePlan(reissue=own, catch_up=catch_up),
    )
    assert (found.after_ms <= found.before_ms + 1e-9).all()
    assert (found.lost >= 0).all()
    assert (found.lost <= 1).all()


def test_blocks_keep_the_accounts_of_all_levers(
    stage_of: StageOf, profile_of: ProfileOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = three(stage_of, profile_of, n=3000)
    catch_up = CatchUpPolicy(after_ms=8, threads=3, reissue=True)
    plan = plan_for(
        profile,
        wide=StagePlan(
            partial=PartialPolicy(cutoff_ms=4, wait_ms=1, progress=0.5, loss=0), catch_up=catch_up
        ),
        c=StagePlan(reissue=Reissue(after_ms=4), catch_up=catch_up),
    )
    whole = simulate(profile, plan, requests=6000, seed=3)
    monkeypatch.setattr("kwiken.tail.simulation.trace_driven.REQUESTS_PER_BLOCK", 701)
    monkeypatch.setattr("kwiken.tail.simulation.stage_replay.MAX_CELLS", 999)
    blocks = simulate(profile, plan, requests=6000, seed=3)
    assert len(blocks.lost) == len(blocks.late_spent) == 6000
    assert blocks.utility_loss == pytest.approx(whole.utility_loss, rel=0.05)
    assert blocks.catch_up == pytest.approx(whole.catch_up, rel=0.05)
    assert blocks.utility_loss == pytest.approx(sum(blocks.stage_loss.values()))
    assert blocks.catch_up == pytest.approx(sum(blocks.stage_late.values()))
    assert blocks.reissue == pytest.approx(sum(blocks.stage_spent.values()))


def test_common_draws_make_policies_comparable_by_request(stage_of: StageOf, profile_of: ProfileOf) -> None:
    stage = three(stage_of, profile_of, n=2000).stage("wide")
    stage_replay = StageReplay(stage, 1.0, np.random.default_rng(5))
    rows = np.arange(2000)

    def ends(after: float) -> Floats:
        return stage_replay.play(rows, StagePlan(reissue=Reissue(after_ms=after)), None).latency_ms

    assert np.array_equal(ends(2.0), ends(2.0))
    assert (ends(1.0) <= ends(2.0)).all()
    drawn = StageReplay(stage, 1.0, np.random.default_rng(6))
    free = drawn.play(rows, StagePlan(reissue=Reissue(after_ms=1.0)), None)
    assert ends(1.0).mean() == pytest.approx(free.latency_ms.mean(), rel=0.05)
