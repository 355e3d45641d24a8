"""Fixed point of plan and load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.latency import ladder
from kwiken.model.plan.plan import Budgets, CatchUpPolicy, StagePlan
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning import under_load
from kwiken.tail.planning.notes import CopiesRefused, HigherLoadNotSearched, NotConverged, PlannedAtLoad
from kwiken.tail.planning.study import LoadStudy, PlanSettings, PlanStudy, study_latencies
from kwiken.tail.planning.under_load import MAX_ROUNDS, plan_under_load
from kwiken.tail.queueing.load import copies_at_load, guard as guard_module
from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
from kwiken.tail.queueing.load.guard import CopyEffect, copy_effect
from kwiken.tail.queueing.load.loaded_profile import profile_under_load
from kwiken.tail.queueing.load.stage_model import LoadModel, StageModel
from tests.support.models.notes import of_kind
from tests.support.models.queue_profiles import queue_profile, rate_of

STUDY = partial(
    study_latencies, settings=PlanSettings(budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")
)


def load_of(study: PlanStudy) -> LoadStudy:
    """The findings on load of a plan that accounts for load."""
    assert study.load is not None
    return study.load


@pytest.fixture(scope="module")
def model() -> LoadModel:
    return load_model(queue_profile(rate_of(0.5), requests=8000, seed=7))


@pytest.fixture(scope="module", autouse=True)
def short_looks() -> Iterator[None]:
    """A quarter of the calls is enough to tell what is asked here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard_module, "CALLS_PER_COMPARISON", 15_000)
        yield


@pytest.fixture(scope="module")
def found(model: LoadModel) -> PlanStudy:
    """The plan that accounts for the load of the profile."""
    return plan_under_load(model, STUDY, requests=8000)


@pytest.fixture(scope="module")
def crowded() -> LoadModel:
    """A load at which copies at once, never cancelled, make the tail worse."""
    return load_model(
        queue_profile(rate_of(0.7), requests=4000, seed=9), QueueSettings(cancel="none", dispatch="random")
    )


def greedy(profile: Profile, *, fraction: float = 1.0, after_ms: float = 0.0) -> PlanStudy:
    """Reissues everything at once at every stage that may be reissued, whatever it costs."""
    study = STUDY(profile)
    policy = Reissue(after_ms=after_ms, fraction=fraction)
    stages = {stage.name: StagePlan(reissue=policy if stage.reissuable else None) for stage in profile.stages}
    budgets = Budgets(reissue=1.0)
    return replace(study, plan=msgspec.structs.replace(study.plan, stages=stages, budgets=budgets))


class TestUnderLoad:
    def test_the_profile_at_another_load(self, model: LoadModel) -> None:
        added = dict.fromkeys(model.stages, 0.1)
        loaded = profile_under_load(model, 1.4, added, {"rank"}, 0)
        assert [stage.reissuable for stage in loaded.stages] == [True, False]
        truth = ladder(queue_profile(rate_of(0.5 * 1.4 * 1.1), requests=60_000, seed=8).latency_ms)
        assert ladder(loaded.latency_ms).p99_ms == pytest.approx(truth.p99_ms, rel=0.15)
        assert np.ptp(loaded.started_s) == pytest.approx(np.ptp(model.profile.started_s) / 1.4)

    def test_without_load_the_profile_is_unchanged(self, model: LoadModel) -> None:
        same = profile_under_load(model, 1.0, dict.fromkeys(model.stages, 0.0), (), 0)
        np.testing.assert_allclose(same.latency_ms, model.profile.latency_ms)

    def test_copies_beyond_the_replicas_leave_a_profile(self, model: LoadModel) -> None:
        """Work of copies is cut to what the replicas can do: the guard refuses the copies afterwards."""
        loaded = profile_under_load(model, 1.5, dict.fromkeys(model.stages, 5.0), (), 0)
        assert np.isfinite(loaded.latency_ms).all()


class TestPlanUnderLoad:
    def test_the_fixed_point_is_reached_and_reported(self, model: LoadModel, found: PlanStudy) -> None:
        plan = found.plan
        assert load_of(found).settled
        assert 1 < load_of(found).rounds < MAX_ROUNDS
        assert not load_of(found).refused
        assert plan.profile == model.profile.digest
        assert any(entry.reissue is not None for entry in plan.stages.values())
        assert plan.expected is not None
        assert plan.expected.after.p99_ms == pytest.approx(load_of(found).simulation.after.p99_ms)
        assert plan.expected.after.p99_ms < plan.expected.before.p99_ms
        assert plan.expected.spent.reissue <= 0.05 * 1.02
        [note] = of_kind(found.notes, PlannedAtLoad)
        assert (note.factor, note.rate_per_s) == (1.0, load_of(found).simulation.rate_per_s)

    def test_its_intervals_move_with_what_is_expected(self, found: PlanStudy) -> None:
        expected = found.plan.expected
        assert expected is not None
        for name, (low, high) in expected.bounds.after.items():
            assert low <= getattr(expected.after, name) * 1.1
            assert high >= getattr(expected.after, name) * 0.9

    def test_time_outs_are_learned_at_the_load_planned_for(self, model: LoadModel, found: PlanStudy) -> None:
        """At 1.6 times the load calls are slower, so what is late there is later."""
        busy = plan_under_load(model, STUDY, load=1.6, requests=5000).plan
        times = [plan.stages["rank"].reissue for plan in (found.plan, busy)]
        assert times[0] is not None
        if times[1] is not None:  # else refused, which is a later time-out still
            assert times[1].after_ms > 1.2 * times[0].after_ms

    def test_copies_that_hurt_are_refused_with_a_note(self, crowded: LoadModel) -> None:
        found = plan_under_load(crowded, greedy, requests=4000)
        assert set(load_of(found).refused) == {"fetch", "rank"}
        assert all(entry.reissue is None for entry in found.plan.stages.values())
        [note] = of_kind(found.notes, CopiesRefused)
        assert {each.stage for each in note.stages} == {"fetch", "rank"}
        for guard in load_of(found).guards.values():
            assert guard.utilisation == pytest.approx(0.7, rel=0.03)
            assert guard.above is not None
            assert guard.above <= guard.utilisation

    @pytest.mark.slow
    def test_what_is_refused_at_last_neither_costs_nor_gains(
        self, crowded: LoadModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In the last round there is no plan to follow that knows of the refusal."""
        monkeypatch.setattr(under_load, "MAX_ROUNDS", 1)
        planned = greedy(crowded.profile)
        assert planned.allocation.spent > 0 < sum(planned.allocation.gains.values())
        study = plan_under_load(crowded, greedy, requests=4000)
        assert all(entry.reissue is None for entry in study.plan.stages.values())
        assert study.allocation.spent == pytest.approx(0.0, abs=1e-12)
        assert {*study.allocation.fractions.values(), *study.allocation.gains.values()} == {0.0}
        assert {*study.allocation.marginal.values()} == {0.0}
        assert not study.simulation.stage_spent
        assert not study.simulation.stage_fraction
        assert not study.between

    def test_thresholds_are_searched_at_the_busiest_stages_only(
        self, model: LoadModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other stage is silent of a higher load, which is not to say that copies never hurt there."""
        monkeypatch.setattr(under_load, "MAX_SEARCHED_STAGES", 1)
        model = load_model(model.profile, QueueSettings(replicas={"fetch": 5}))
        found = plan_under_load(model, partial(greedy, fraction=0.02, after_ms=60.0), requests=4000)
        assert not load_of(found).refused
        assert {*load_of(found).guards} == {"rank"}
        assert load_of(found).unsearched == ("fetch",)
        assert HigherLoadNotSearched(("fetch",), searched=1) in found.notes

    def test_a_policy_that_hardly_moved_is_not_looked_at_again(
        self, model: LoadModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that moved is, but not its arm without copies."""
        asked: list[tuple[float, bool]] = []
        monkeypatch.setattr(copies_at_load, "FIRST_CALLS", 15_000)  # as many as there are, so none

        def seen(stage: StageModel, policy: Reissue, **settings: Any) -> CopyEffect:
            asked.append((policy.after_ms, settings["alone_ms"] is not None))
            found = copy_effect(stage, policy, **settings)
            fresh = copy_effect(stage, policy, **{**settings, "alone_ms": None})
            np.testing.assert_array_equal(found.alone_ms, fresh.alone_ms)
            assert found.extra_load == fresh.extra_load
            return found

        turns = iter((60.0, 60.5, 61.0, 80.0, 80.0))
        shares = iter((0.02, 0.0201, 0.0202, 0.04, 0.04))

        def moving(profile: Profile) -> PlanStudy:
            return greedy(profile, fraction=next(shares), after_ms=next(turns))

        monkeypatch.setattr(copies_at_load, "copy_effect", seen)
        monkeypatch.setattr(under_load, "MAX_SPEND_CHANGE", 1e-9)
        found = plan_under_load(model, moving, requests=4000)
        assert load_of(found).rounds == 5
        assert asked == [(60.0, False), (60.0, False), (80.0, True), (80.0, True)]

    @pytest.mark.slow
    def test_few_calls_show_that_copies_help_plainly_and_never_that_they_hurt(
        self, crowded: LoadModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[int, bool]] = []

        def seen(stage: StageModel, policy: Reissue, **settings: Any) -> CopyEffect:
            found = copy_effect(stage, policy, **settings)
            asked.append((settings["calls"], found.hurts))
            return found

        monkeypatch.setattr(copies_at_load, "copy_effect", seen)
        calm = load_model(
            queue_profile(rate_of(0.15), requests=4000, seed=9),
            QueueSettings(cancel="none", dispatch="random"),
        )
        assert not load_of(plan_under_load(calm, greedy, requests=4000)).refused
        assert {*asked} == {(5000, False)}
        asked.clear()
        assert load_of(plan_under_load(crowded, greedy, requests=4000)).refused
        assert asked == [(5000, True), (15_000, True)] * 2

    @pytest.mark.parametrize(("profiled", "simulated"), [(200, 1000), (400, 1600), (800, 2000)])
    def test_what_is_expected_rests_on_requests_as_the_profile_has_them(
        self, profiled: int, simulated: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(under_load, "MIN_REQUESTS", 1000)
        monkeypatch.setattr(under_load, "MAX_REQUESTS", 2000)
        model = load_model(queue_profile(rate_of(0.03), requests=profiled))  # too calm to search thresholds
        assert len(load_of(plan_under_load(model, STUDY)).simulation.before_ms) == simulated

    def test_copies_that_hurt_are_refused_at_unsearched_stages_too(
        self, crowded: LoadModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(under_load, "MAX_SEARCHED_STAGES", 1)
        found = plan_under_load(crowded, greedy, requests=4000)
        assert set(load_of(found).refused) == {"fetch", "rank"}
        assert len(load_of(found).unsearched) == 1
        [note] = of_kind(found.notes, CopiesRefused)
        assert sum(each.hurts_from is not None for each in note.stages) == 1
        assert not of_kind(found.notes, HigherLoadNotSearched)

    @pytest.mark.slow
    def test_the_same_copies_are_welcome_where_there_is_room(self) -> None:
        model = load_model(
            queue_profile(rate_of(0.1), requests=6000, seed=9),
            QueueSettings(cancel="none", dispatch="random"),
        )
        found = plan_under_load(model, greedy, requests=8000)
        assert not load_of(found).refused
        assert load_of(found).simulation.after.p99_ms < load_of(found).simulation.before.p99_ms

    def test_a_service_at_low_load_is_planned_once(self) -> None:
        model = load_model(queue_profile(rate_of(0.03), requests=3000))
        found = plan_under_load(model, STUDY, requests=8000)
        assert load_of(found).settled
        assert load_of(found).rounds == 1
        assert not load_of(found).guards
        alone = STUDY(model.profile).plan
        assert {n: e.reissue for n, e in found.plan.stages.items()} == {
            n: e.reissue for n, e in alone.stages.items()
        }

    @pytest.mark.slow
    def test_what_never_rests_ends_and_says_so(self, model: LoadModel) -> None:
        turns = iter(range(1000))

        def fickle(profile: Profile) -> PlanStudy:
            return greedy(profile, fraction=0.02 + 0.02 * (next(turns) % 2), after_ms=60.0)

        found = plan_under_load(model, fickle)
        assert not load_of(found).settled
        assert load_of(found).rounds == MAX_ROUNDS
        assert NotConverged(MAX_ROUNDS) in found.notes

    def test_levers_outside_the_queueing_model_keep_their_plan(self, model: LoadModel) -> None:
        def with_catch_up(profile: Profile) -> PlanStudy:
            study = STUDY(profile)
            late = {**study.plan.stages, "rank": StagePlan(catch_up=CatchUpPolicy(after_ms=90.0, threads=2))}
            return replace(study, plan=msgspec.structs.replace(study.plan, stages=late))

        found = plan_under_load(model, with_catch_up)
        expected = found.plan.expected
        assert expected is not None
        assert expected.after != load_of(found).simulation.after

    def test_a_load_that_cannot_be_served(self, model: LoadModel) -> None:
        with pytest.raises(InputError, match="more calls than it can serve"):
            plan_under_load(model, STUDY, load=2.5)


@pytest.mark.slow
def test_a_wide_fan_out_is_planned_on_as_many_requests_as_fit(
    stage_of: Callable[..., StageProfile], profile_of: Callable[..., Profile], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    wide = replace(stage_of("wide", rng.lognormal(2, 0.5, (300, 40))), busy_ms=1.0, replicas=10)
    model = load_model(replace(profile_of(wide), started_s=np.linspace(0.0, 6.0, 300)))
    monkeypatch.setattr(under_load, "MAX_STAGE_CALLS", 2 * 40 * 1200)
    found = plan_under_load(model, STUDY, requests=5000)
    assert len(load_of(found).simulation.before_ms) == 1200
