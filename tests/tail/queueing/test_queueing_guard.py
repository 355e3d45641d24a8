"""Load guard: the known threshold, and higher ones for late and few copies."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from kwiken.model.plan.plan import Budgets, StagePlan
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning.planner import make_plan
from kwiken.tail.queueing.load import guard as guard_module
from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
from kwiken.tail.queueing.load.guard import (
    MAX_UTILISATION,
    UTILISATION_STEP,
    CopyEffect,
    _first_bad,
    copy_effect,
    guard,
    guards,
    plan_hurts_above,
    tail_hurts,
)
from kwiken.tail.queueing.load.stage_model import StageModel
from kwiken.tail.queueing.simulator.service_times import Constant
from kwiken.tail.queueing.simulator.station import Station
from tests.support.models.distributions import Exponential
from tests.support.models.queue_profiles import queue_profile, rate_of


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the calls tells as much here, in a third of the time."""
    monkeypatch.setattr(guard_module, "CALLS_PER_COMPARISON", 20_000)
    monkeypatch.setattr(guard_module, "REQUESTS_PER_COMPARISON", 4000)


def pure(station: Station, utilisation: float = 0.2) -> StageModel:
    """A stage of work alone, with calls enough to draw from."""
    nothing = np.zeros((1000, 1))
    return StageModel(station, utilisation, nothing, nothing, station.visits_per_s(utilisation))


EVERYTHING = Reissue(after_ms=0.0, fraction=1.0)
BLIND = Station(name="a", work=Exponential(10.0), replicas=40, dispatch="random", cancel="none")


class TestThreshold:
    def test_exponential_work_duplicated_blindly_hurts_from_a_third(self) -> None:
        """Vulimiri et al. 2013; all percentiles of M/M/1 agree on it."""
        found = guard(pure(BLIND), EVERYTHING)
        assert found.utilisation == pytest.approx(0.2)
        assert found.above is not None
        assert 0.28 < found.above < 0.4

    def test_constant_work_tolerates_less(self) -> None:
        """The same source: without variation of work the threshold is about a quarter."""
        found = guard(pure(replace(BLIND, work=Constant(10.0))), EVERYTHING)
        assert found.above is not None
        assert found.above < 0.3

    def test_cancelled_copies_are_nearly_free(self) -> None:
        """With memoryless work and losers cancelled, two attempts do the work of one."""
        running = guard(pure(replace(BLIND, cancel="running")), EVERYTHING)
        assert running.above is None or running.above > 0.6

    def test_late_and_few_copies_hurt_later(self) -> None:
        few = guard(pure(BLIND), Reissue(after_ms=40.0, fraction=0.05))
        assert few.above is None or few.above > 0.5

    def test_a_trial_shows_the_effect_of_copies(self) -> None:
        model = pure(BLIND)
        low, high = (copy_effect(model, EVERYTHING, factor=model.factor_at(used)) for used in (0.1, 0.45))
        assert low.raced_ms is not None
        assert low.raced_ms.mean() < low.alone_ms.mean()
        assert not low.hurts
        assert high.hurts
        assert low.extra_load == pytest.approx(1.0, rel=0.1)

    def test_copies_that_overload_the_stage_hurt(self) -> None:
        found = copy_effect(pure(BLIND), EVERYTHING, factor=pure(BLIND).factor_at(0.7))
        assert found.hurts

    @pytest.mark.parametrize("edge", [0.15, 0.6])
    def test_loads_with_a_known_effect_are_not_searched(
        self, monkeypatch: pytest.MonkeyPatch, edge: float
    ) -> None:
        model, here, asked = pure(BLIND), 0.25, list[float]()

        def hurting(stage: StageModel, policy: Reissue, factor: float, *_: object) -> bool:
            asked.append(stage.busy_at(factor))
            return asked[-1] >= edge

        monkeypatch.setattr(guard_module, "_hurts", hurting)
        found = guard(model, EVERYTHING, factor=model.factor_at(here), hurts=here >= edge)
        assert found.above is not None
        assert edge <= found.above <= edge + UTILISATION_STEP
        assert all(used < here if here >= edge else used > here for used in asked)

    def test_few_calls_show_what_is_plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Overloaded queues are slow to simulate: thirteen seconds a look, once."""
        asked: list[tuple[float, int]] = []

        def seen(model: StageModel, policy: Reissue, *, factor: float, seed: int, calls: int) -> CopyEffect:
            asked.append((model.busy_at(factor), calls))
            return copy_effect(model, policy, factor=factor, seed=seed, calls=calls)

        monkeypatch.setattr(guard_module, "copy_effect", seen)
        monkeypatch.setattr(guard_module, "CALLS_PER_COMPARISON", 60_000)
        found = guard(pure(BLIND), EVERYTHING)
        assert found.above is not None
        assert 0.28 < found.above < 0.4
        assert {calls for busy, calls in asked if busy < 0.1 or busy > 0.5} == {5000}
        assert any(calls == 60_000 for busy, calls in asked if 0.28 < busy < 0.4)


class TestTail:
    def test_p99_alone_does_not_judge(self) -> None:
        """Copies of the slowest half percent cannot lower p99, and are worth a little of it."""
        alone = np.concatenate((np.full(980, 10.0), np.full(15, 50.0), np.full(5, 900.0)))
        raced = np.concatenate((np.full(980, 10.0), np.full(15, 51.0), np.full(5, 60.0)))
        assert not tail_hurts(alone, raced)
        assert tail_hurts(alone, np.where(alone > 100, 900.0, raced * 1.02))
        assert not tail_hurts(alone, alone)


class TestWhole:
    @pytest.mark.slow
    def test_a_small_plan_is_harmless_for_long(self) -> None:
        model = load_model(queue_profile(rate_of(0.3), requests=8000))
        plan = make_plan(model.profile, budgets=Budgets(reissue=0.02), created="2026-01-01T00:00:00Z")
        above = plan_hurts_above(model, plan)
        assert above is None or above > 1.5

    def test_no_load_on_what_is_reissued(self) -> None:
        profile = queue_profile(rate_of(0.3), requests=3000, known=False)
        model = load_model(profile, QueueSettings(utilisation={"fetch": 0.3}, replicas={"fetch": 4}))
        plan = make_plan(profile, budgets=Budgets(reissue=0.02), created="2026-01-01T00:00:00Z")
        stages = {"rank": StagePlan(reissue=Reissue(after_ms=20.0, fraction=0.02))}
        assert plan_hurts_above(model, msgspec.structs.replace(plan, stages=stages)) is None


class TestBusiest:
    def test_they_are_searched_first_and_the_others_are_left_out(self) -> None:
        model = load_model(queue_profile(rate_of(0.5), requests=3000), QueueSettings(replicas={"fetch": 5}))
        policies = dict.fromkeys(("fetch", "rank"), Reissue(after_ms=40.0, fraction=0.02))
        assert [*guards(model, policies)] == ["rank", "fetch"]
        assert [*guards(model, policies, busiest=1)] == ["rank"]


class TestBisection:
    @pytest.mark.parametrize("edge", [0.1, 0.33, 0.9])
    def test_the_guard_finds_the_threshold(self, edge: float) -> None:
        found = _first_bad(lambda x: x >= edge, 0.05, MAX_UTILISATION)
        assert found is not None
        assert edge <= found <= edge + UTILISATION_STEP

    def test_all_or_nothing(self) -> None:
        assert _first_bad(lambda _: False, 0.0, 1.0) is None
        assert _first_bad(lambda _: True, 0.2, 1.0) == 0.2
        assert _first_bad(lambda _: True, 1.0, 0.5) is None
