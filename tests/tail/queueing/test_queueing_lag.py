"""Answers that lie at the gateway under the load model: no part of the race, of waits or of rests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.queueing.load.decompose import load_model
from kwiken.tail.queueing.load.loaded_profile import profile_under_load
from kwiken.tail.queueing.load.simulate import simulate_load
from kwiken.tail.queueing.simulator.network import Primaries, simulate_queues
from kwiken.tail.queueing.simulator.service_times import Constant
from kwiken.tail.queueing.simulator.station import Station
from tests.support.models.queue_profiles import CHAIN, queue_profile, rate_of

LAG_MS = 40.0  # of every twentieth answer: far beyond the time-outs of copies
NONE_ADDED = dict.fromkeys((station.name for station in CHAIN), 0.0)


def lagging(profile: Profile) -> Profile:
    """The profile where every twentieth answer of each stage lay at the gateway."""
    stages = []
    for offset, stage in enumerate(profile.stages):
        lag = np.zeros(stage.calls_ms.shape)
        lag[offset::20] = LAG_MS
        stages.append(replace(stage, calls_ms=stage.calls_ms + lag, lag_ms=lag))
    added = sum(stage.lag_ms[:, 0] for stage in stages if stage.lag_ms is not None)
    return replace(profile, stages=tuple(stages), latency_ms=profile.latency_ms + added)


@pytest.fixture(scope="module")
def plain() -> Profile:
    return queue_profile(rate_of(0.4), requests=4000, seed=7)


class TestLoadModel:
    def test_work_waits_and_rests_are_those_without_lag(self, plain: Profile) -> None:
        known, lagged = load_model(plain), load_model(lagging(plain))
        for name, model in known.stages.items():
            np.testing.assert_allclose(lagged.stages[name].calls_ms, model.calls_ms, atol=1e-9)
            np.testing.assert_allclose(lagged.stages[name].rest_ms, model.rest_ms, atol=1e-6)

    def test_at_its_own_load_a_profile_stays_as_it_is(self, plain: Profile) -> None:
        profile = lagging(plain)
        loaded = profile_under_load(load_model(profile), 1.0, NONE_ADDED, (), 0)
        for before, after in zip(profile.stages, loaded.stages, strict=True):
            np.testing.assert_allclose(after.calls_ms, before.calls_ms, atol=1e-9)
            np.testing.assert_array_equal(after.lag_ms, before.lag_ms)

    def test_load_lengthens_waits_and_no_lag(self, plain: Profile) -> None:
        profile = lagging(plain)
        alone = profile_under_load(load_model(plain), 1.8, NONE_ADDED, (), 0)
        loaded = profile_under_load(load_model(profile), 1.8, NONE_ADDED, (), 0)
        for stage, other in zip(loaded.stages, alone.stages, strict=True):
            np.testing.assert_allclose(stage.without_lag().calls_ms, other.calls_ms, atol=1e-6)
        assert loaded.latency_ms.mean() > profile.latency_ms.mean()

    @pytest.mark.slow  # two plans under load take ten seconds
    def test_copies_are_planned_and_sent_as_without_lag(self, plain: Profile) -> None:
        """Lag neither moves a time-out nor makes a call late enough for a copy, and no copy shortens it."""
        profile = lagging(plain)
        settings = PlanSettings(budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z", load=1.0)
        plan, other = study_plan(plain, settings).plan, study_plan(profile, settings).plan
        for name, entry in plan.stages.items():
            policy = other.stages[name].reissue
            assert (policy is None) == (entry.reissue is None)
            if policy is not None and entry.reissue is not None:
                assert policy.after_ms == pytest.approx(entry.reissue.after_ms, rel=0.05)
        alone = simulate_load(load_model(plain), plan, requests=4000)
        found = simulate_load(load_model(profile), plan, requests=4000)
        assert alone.reissue > 0
        assert found.reissue == pytest.approx(alone.reissue, rel=0.2)
        assert np.mean(found.after_ms > LAG_MS) >= np.mean(found.before_ms > LAG_MS) * 0.8


class TestQueues:
    def test_lag_comes_after_the_race(self) -> None:
        """A call that is answered before its time-out gets no copy, however late its answer is read."""
        ones = np.ones((50, 1))
        station = Station(name="a", work=Constant(1.0), replicas=4, reissue=Reissue(after_ms=5.0))
        given = {"a": Primaries(ones, ones, 30.0 * ones)}
        found = simulate_queues(
            [station], np.linspace(0.0, 4900.0, 50), rng=np.random.default_rng(0), given=given
        )
        np.testing.assert_allclose(found.latency_ms, 32.0)
        assert found.stages["a"].copies.sum() == 0

    def test_a_fan_out_ends_with_the_answer_that_is_read_last(self) -> None:
        work = np.array([[1.0, 9.0, np.nan]])
        lag = np.array([[20.0, 3.0, np.nan]])
        given = {"a": Primaries(work, np.where(np.isnan(work), np.nan, 0.0), lag)}
        station = Station(name="a", work=Constant(1.0), replicas=3, fanout=3)
        found = simulate_queues([station], np.zeros(1), rng=np.random.default_rng(0), given=given)
        np.testing.assert_allclose(found.latency_ms, 21.0)

    @pytest.mark.parametrize("lag", [np.ones((3, 2)), np.full((3, 1), -1.0), np.full((3, 1), np.nan)])
    def test_a_lag_that_is_no_time_of_each_call_is_refused(self, lag: Floats) -> None:
        given = {"a": Primaries(np.ones((3, 1)), np.ones((3, 1)), lag)}
        with pytest.raises(InputError, match="stage 'a': lag_ms must have the shape"):
            simulate_queues(
                [Station(name="a", work=Constant(1.0), replicas=1)],
                np.arange(3.0),
                rng=np.random.default_rng(0),
                given=given,
            )
