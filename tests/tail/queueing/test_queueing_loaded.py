"""Simulation of a plan at another load: budgets, accounts, and draws shared by both runs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms, only_prompt_earn
from kwiken.model.plan.plan import Budgets, CatchUpPolicy, Plan, StagePlan
from kwiken.model.profile.profile import Profile
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.queueing.load.decompose import load_model
from kwiken.tail.queueing.load.notes import LeversNotSimulated
from kwiken.tail.queueing.load.simulate import reissuing, simulate_load
from kwiken.tail.queueing.load.stage_model import LoadModel
from tests.support.models.notes import of_kind
from tests.support.models.queue_profiles import CHAIN, queue_profile, rate_of

CREATED = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def profile() -> Profile:
    return queue_profile(rate_of(0.4), requests=5000, seed=5)


@pytest.fixture(scope="module")
def model(profile: Profile) -> LoadModel:
    return load_model(profile)


@pytest.fixture(scope="module")
def plan(profile: Profile) -> Plan:
    settings = PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED, guarded=False)
    return study_plan(profile, settings).plan


class TestSpend:
    @pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
    def test_the_budget_holds_at_any_load(self, model: LoadModel, plan: Plan, factor: float) -> None:
        """At twice the load most calls are late; the accounts still keep the sum."""
        found = simulate_load(model, plan, factor=factor, requests=8000)
        assert 0 < found.reissue <= 0.05 * 1.02
        for name, stage in found.stages.items():
            assert stage.spent == pytest.approx(plan.cost.stages[name] * stage.fraction)

    def test_copies_help_where_there_is_room(self, model: LoadModel, plan: Plan) -> None:
        found = simulate_load(model, plan, requests=8000)
        assert found.after.p99_ms < 0.95 * found.before.p99_ms

    def test_copies_are_work(self, model: LoadModel, plan: Plan) -> None:
        found = simulate_load(model, plan, requests=8000).stages["rank"]
        assert found.before < found.after < found.before * (1 + 1.05 * found.fraction)
        assert 0 < found.extra_load <= 1.2 * found.fraction

    def test_without_a_plan_both_arms_are_one(self, model: LoadModel) -> None:
        found = simulate_load(model, requests=2000)
        np.testing.assert_array_equal(found.before_ms, found.after_ms)
        assert found.reissue == 0

    def test_the_same_seed_gives_the_same(self, model: LoadModel, plan: Plan) -> None:
        one, two, other = (simulate_load(model, plan, requests=2000, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one.after_ms, two.after_ms)
        assert (one.after_ms != other.after_ms).any()

    def test_a_plan_without_policies_changes_nothing(self, model: LoadModel, plan: Plan) -> None:
        idle = msgspec.structs.replace(plan, stages={"rank": StagePlan()})
        found = simulate_load(model, idle, requests=2000)
        np.testing.assert_array_equal(found.before_ms, found.after_ms)

    def test_left_out_levers_are_noted(self, model: LoadModel, plan: Plan) -> None:
        late = StagePlan(catch_up=CatchUpPolicy(after_ms=50.0))
        more = msgspec.structs.replace(plan, stages={**plan.stages, "fetch": late})
        notes = simulate_load(model, more, requests=500).notes
        assert LeversNotSimulated(("fetch",)) in notes
        assert not of_kind(simulate_load(model, plan, requests=500).notes, LeversNotSimulated)


class TestAccounts:
    @pytest.mark.parametrize(
        "policy",
        [
            Reissue(after_ms=30.0, fraction=0.05),
            Reissue(after_ms=9.0, fraction=0.03, probability=0.1),
            Reissue(after_ms=0.0, fraction=0.8),
            Reissue(after_ms=9.0),
        ],
    )
    def test_they_are_the_runtimes(self, policy: Reissue) -> None:
        earnings = reissuing(CHAIN[1], policy).earnings
        assert earnings is not None
        assert earnings.bounds == LedgerTerms().stage_bounds(policy)
        assert earnings.prompt_only is only_prompt_earn(policy)

    def test_a_plan_states_their_terms(self) -> None:
        policy, terms = Reissue(after_ms=30.0, fraction=0.05), LedgerTerms(horizon_s=600.0)
        earnings = reissuing(CHAIN[1], policy, terms=terms, scale=0.5).earnings
        assert earnings is not None
        assert earnings.bounds.horizon_s == 600.0
        assert earnings.bounds.fraction == terms.stage_bounds(policy).fraction / 2


class TestBadInput:
    def test_no_requests(self, model: LoadModel) -> None:
        with pytest.raises(InputError, match="requests must be 1 or more"):
            simulate_load(model, requests=0)

    def test_a_plan_for_another_service(self, model: LoadModel, plan: Plan) -> None:
        strange = msgspec.structs.replace(plan, stages={"x": StagePlan()})
        with pytest.raises(InputError, match="stage 'x' is not in the profile; it has: fetch, rank"):
            simulate_load(model, strange)
