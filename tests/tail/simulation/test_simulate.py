"""Simulator against closed forms, exact curves and its own accounts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end, ladder
from kwiken.model.plan.plan import Budgets, Costs, Plan, SpanMatch, StagePlan
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.curve import Curve, reissue_curve
from kwiken.tail.simulation.stage_replay import StageReplay
from kwiken.tail.simulation.trace_driven import replay, simulate

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def plan_for(profile: Profile, **policies: Reissue) -> Plan:
    return Plan(
        version=1,
        service="test",
        created="2026-01-01T00:00:00Z",
        profile=profile.digest,
        budgets=Budgets(reissue=1.0),
        cost=costs(profile, "calls"),
        stages={name: StagePlan(reissue=policy) for name, policy in policies.items()},
    )


def policy_of(curve: Curve, fraction: float) -> Reissue:
    policy = curve.policy(fraction)
    assert policy is not None
    return policy


@pytest.fixture
def diamond(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    rng = np.random.default_rng(0)
    return profile_of(
        stage_of("a", rng.exponential(1, 4000)),
        stage_of("b", rng.exponential(2, (4000, 5)), after=("a",)),
        stage_of("c", rng.exponential(4, 4000), after=("a",)),
        stage_of("d", rng.exponential(1, 4000), after=("b", "c")),
    )


def test_replaying_every_row_reproduces_every_request(diamond: Profile) -> None:
    simulated = replay(diamond, None, np.arange(4000))
    assert np.allclose(simulated.before_ms, diamond.latency_ms)
    assert np.array_equal(simulated.after_ms, simulated.before_ms)
    assert simulated.reissue == 0


def test_percentiles_are_the_samples_own() -> None:
    found = ladder(np.arange(1001.0))
    found_ms = [found.p50_ms, found.p90_ms, found.p95_ms, found.p99_ms, found.p999_ms]
    assert found_ms == pytest.approx([500, 900, 950, 990, 999])


@pytest.mark.parametrize("width", [1, 6])
def test_mean_and_variance_under_a_policy_match_the_exact_curve(
    stage_of: StageOf, profile_of: ProfileOf, width: int
) -> None:
    calls = np.random.default_rng(1).lognormal(0, 1, (3000, width))
    profile = profile_of(stage_of("a", calls))
    curve = reissue_curve(calls)
    for fraction in (0.02, 0.2):
        policy = policy_of(curve, fraction)
        simulated = simulate(profile, plan_for(profile, a=policy), requests=150_000, seed=2)
        mean, variance = curve.moments(policy)
        assert simulated.after_ms.mean() == pytest.approx(mean, rel=0.02)
        assert simulated.after_ms.var() == pytest.approx(variance, rel=0.1)
        assert simulated.reissue == pytest.approx(fraction, rel=0.05)
        assert simulated.stage_fraction["a"] == pytest.approx(fraction, rel=0.05)


def test_p99_of_one_stage_does_not_move_at_one_percent(stage_of: StageOf, profile_of: ProfileOf) -> None:
    # A copy that goes at p99 cannot end before it (Kwiken section 5.2.1).
    calls = np.random.default_rng(3).lognormal(0, 1, 20_000)
    profile = profile_of(stage_of("a", calls))
    at_p99 = Reissue(after_ms=float(np.quantile(calls, 0.99)))
    simulated = replay(profile, plan_for(profile, a=at_p99), np.arange(20_000))
    assert simulated.after.p99_ms == pytest.approx(simulated.before.p99_ms)
    assert simulated.after.p999_ms < simulated.before.p999_ms


@pytest.mark.parametrize(
    ("sigma", "fraction", "ratio"),
    [(1.0, 0.05, 0.65), (0.5, 0.05, 0.94), (1.0, 1.0, 0.352), (0.5, 1.0, 0.593)],
)
def test_log_normal_p99_anchors(
    stage_of: StageOf, profile_of: ProfileOf, sigma: float, fraction: float, ratio: float
) -> None:
    calls = np.random.default_rng(4).lognormal(0, sigma, 200_000)
    profile = profile_of(stage_of("a", calls))
    plan = plan_for(profile, a=policy_of(reissue_curve(calls[:20_000]), fraction))
    simulated = replay(profile, plan, np.arange(200_000))
    assert simulated.after.p99_ms / simulated.before.p99_ms == pytest.approx(ratio, abs=0.03)


def test_exponential_p99_anchor(stage_of: StageOf, profile_of: ProfileOf) -> None:
    calls = np.random.default_rng(5).exponential(1, 200_000)
    profile = profile_of(stage_of("a", calls))
    plan = plan_for(profile, a=policy_of(reissue_curve(calls[:20_000]), 0.05))
    simulated = replay(profile, plan, np.arange(200_000))
    assert simulated.after.p99_ms / simulated.before.p99_ms == pytest.approx(0.825, abs=0.03)


@pytest.mark.parametrize("independent", [False, True])
def test_no_request_is_ever_slower_with_the_plan(diamond: Profile, independent: bool) -> None:
    policies = {
        "a": Reissue(after_ms=1.0),
        "b": Reissue(after_ms=2.0, probability=0.5, copies=3),
        "d": Reissue(after_ms=0.0),
    }
    simulated = simulate(
        diamond, plan_for(diamond, **policies), requests=5000, seed=6, independent=independent
    )
    assert (simulated.after_ms <= simulated.before_ms).all()
    assert (simulated.after_ms < simulated.before_ms).any()


@given(
    st.lists(st.lists(st.floats(0, 100), min_size=3, max_size=3), min_size=1, max_size=10),
    st.floats(0, 120),
    st.floats(0.01, 1),
    st.integers(1, 4),
    st.integers(0, 1000),
)
def test_no_race_is_lost_by_racing(
    calls: list[list[float]], after: float, probability: float, copies: int, seed: int
) -> None:
    matrix = np.array(calls)
    policy = Reissue(after_ms=after, probability=probability, copies=copies)
    stage = StageProfile(
        name="a",
        match=SpanMatch(service="s", operation="a"),
        calls_ms=matrix,
        censored=np.zeros(matrix.shape, dtype=np.bool_),
    )
    stage_replay = StageReplay(stage, 1.0, np.random.default_rng(seed))
    outcome = stage_replay.play(np.arange(len(matrix)), StagePlan(reissue=policy), None)
    assert (outcome.latency_ms <= matrix.max(axis=1)).all()
    assert (outcome.latency_ms >= np.minimum(matrix.max(axis=1), after)).all()
    assert (outcome.copies <= copies * (matrix > after).sum(axis=1)).all()
    assert not outcome.late_copies.any()


def test_spend_is_the_plans_cost_of_every_copy(diamond: Profile) -> None:
    plan = plan_for(diamond, b=Reissue(after_ms=0.0), d=Reissue(after_ms=0.0))
    simulated = simulate(diamond, plan, requests=2000, seed=7)
    # Of 8 calls a request, every one of b's five and d's one is doubled.
    assert simulated.reissue == pytest.approx(6 / 8)
    assert simulated.stage_spent == pytest.approx({"b": 5 / 8, "d": 1 / 8})
    assert simulated.stage_fraction == pytest.approx({"b": 1.0, "d": 1.0})
    assert simulated.spent == pytest.approx(np.full(2000, 6 / 8))


def test_copies_after_the_first_go_later_and_cost_as_much(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("a", np.full(1000, 10.0)))
    simulated = simulate(profile, plan_for(profile, a=Reissue(after_ms=3.0, copies=4)), requests=1000)
    # Copies go at 3, 6 and 9; at 12 the call is over.
    assert simulated.stage_fraction["a"] == pytest.approx(3.0)
    assert (simulated.after_ms == 10).all()


def test_a_coin_sends_that_share_of_the_copies(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("a", np.random.default_rng(8).exponential(1, 5000)))
    policy = Reissue(after_ms=0.0, probability=0.25)
    simulated = simulate(profile, plan_for(profile, a=policy), requests=40_000)
    assert simulated.reissue == pytest.approx(0.25)
    assert simulated.spent.mean() == pytest.approx(0.25, abs=0.01)


def test_joint_rows_keep_what_makes_stages_slow_together(stage_of: StageOf, profile_of: ProfileOf) -> None:
    size = np.random.default_rng(9).lognormal(0, 1, 5000)
    profile = profile_of(stage_of("a", size), stage_of("b", size, after=("a",)))
    joint = simulate(profile, requests=50_000, seed=1)
    apart = simulate(profile, requests=50_000, seed=1, independent=True)
    assert joint.before_ms.var() == pytest.approx(4 * size.var(), rel=0.15)
    assert apart.before_ms.var() == pytest.approx(2 * size.var(), rel=0.15)


def test_independent_draws_follow_the_sum_of_variances(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(10)
    stages = [stage_of("s0", rng.exponential(1, 2000))]
    stages += [stage_of(f"s{i}", rng.exponential(1, 2000), after=(f"s{i - 1}",)) for i in range(1, 6)]
    simulated = simulate(profile_of(*stages), requests=100_000, independent=True)
    total = sum(stage.latency_ms.var() for stage in stages)
    assert simulated.before_ms.var() == pytest.approx(total, rel=0.03)


def test_skipped_visits_are_neither_late_nor_charged(stage_of: StageOf, profile_of: ProfileOf) -> None:
    calls = np.where(np.arange(1000) % 2 == 0, 5.0, np.nan)
    profile = profile_of(stage_of("always", np.ones(1000)), stage_of("seldom", calls, after=("always",)))
    plan = plan_for(profile, seldom=Reissue(after_ms=0.0))
    simulated = replay(profile, plan, np.arange(1000))
    assert simulated.stage_fraction["seldom"] == 1.0
    assert simulated.reissue == pytest.approx(plan.cost.stages["seldom"])
    assert set(simulated.before_ms.tolist()) == {1.0, 6.0}


def test_cancelled_calls_are_counted_and_lengthened(stage_of: StageOf, profile_of: ProfileOf) -> None:
    true = np.random.default_rng(11).exponential(1, 20_000)
    cut = true > 1.0
    cut &= np.random.default_rng(12).random(20_000) < 0.7
    profile = profile_of(stage_of("a", np.where(cut, 1.0, true), censored=cut))
    simulated = replay(profile, None, np.arange(20_000))
    assert simulated.censored == cut.sum()
    assert simulated.before_ms.mean() == pytest.approx(1.0, rel=0.05)


def test_large_stages_are_raced_in_blocks_with_the_same_accounts(
    diamond: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(diamond, b=Reissue(after_ms=1.0))
    whole = simulate(diamond, plan, requests=5000, seed=3)
    monkeypatch.setattr("kwiken.tail.simulation.stage_replay.MAX_CELLS", 999)
    blocks = simulate(diamond, plan, requests=5000, seed=3)
    assert blocks.reissue == whole.reissue
    assert blocks.after_ms.mean() == pytest.approx(whole.after_ms.mean(), rel=0.02)


def test_many_requests_are_replayed_in_blocks_with_the_same_accounts(
    diamond: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(diamond, b=Reissue(after_ms=1.0), d=Reissue(after_ms=0.0))
    whole = simulate(diamond, plan, requests=10_000, seed=3)
    monkeypatch.setattr("kwiken.tail.simulation.trace_driven.REQUESTS_PER_BLOCK", 777)
    blocks = simulate(diamond, plan, requests=10_000, seed=3)
    assert len(blocks.before_ms) == len(blocks.after_ms) == len(blocks.spent) == 10_000
    assert blocks.stage_fraction["d"] == 1.0
    assert blocks.reissue == pytest.approx(sum(blocks.stage_spent.values()))
    assert blocks.reissue == pytest.approx(whole.reissue, rel=0.02)
    assert blocks.before_ms.mean() == pytest.approx(whole.before_ms.mean(), rel=0.02)
    replayed = replay(diamond, None, np.arange(4000))
    assert np.allclose(replayed.before_ms, diamond.latency_ms)


def test_same_seed_same_result_other_seed_another(diamond: Profile) -> None:
    plan = plan_for(diamond, b=Reissue(after_ms=1.0))
    first, again = simulate(diamond, plan, seed=5), simulate(diamond, plan, seed=5)
    assert np.array_equal(first.after_ms, again.after_ms)
    assert not np.array_equal(first.after_ms, simulate(diamond, plan, seed=6).after_ms)


def test_both_arms_see_the_same_primaries(diamond: Profile) -> None:
    plan = plan_for(diamond, b=Reissue(after_ms=1.0))
    assert np.array_equal(simulate(diamond, plan, seed=5).before_ms, simulate(diamond, seed=5).before_ms)


def test_chain_is_the_sum_whatever_the_order_of_draws(diamond: Profile) -> None:
    simulated = simulate(diamond, requests=100, seed=1)
    assert np.isin(
        simulated.before_ms.round(9),
        end_to_end(diamond.stages, {s.name: s.latency_ms for s in diamond.stages}).round(9),
    ).all()


def test_refuses_what_cannot_be_simulated(diamond: Profile, stage_of: StageOf, profile_of: ProfileOf) -> None:
    with pytest.raises(InputError, match="requests"):
        simulate(diamond, requests=0)
    with pytest.raises(InputError, match="no requests"):
        simulate(profile_of(stage_of("a", np.empty((0, 1)))))
    plan = plan_for(diamond, b=Reissue(after_ms=1.0))
    stranger = Plan(
        version=1,
        service="test",
        created="",
        profile="",
        budgets=plan.budgets,
        cost=Costs(model="calls", stages={"z": 1.0}),
        stages={"z": StagePlan(reissue=Reissue(after_ms=1.0))},
    )
    with pytest.raises(InputError, match="'z'"):
        simulate(diamond, stranger)
    with pytest.raises(InputError, match="no requests"):
        ladder(np.array([]))
