"""Decomposition of a profile: its ingredients are recovered, and other loads predicted from one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import ladder
from kwiken.model.profile.profile import OWN_TIME, Profile
from kwiken.model.profile.subset import part_of
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.load import stage_model
from kwiken.tail.queueing.load.decompose import QueueSettings, known_utilisation, load_model
from kwiken.tail.queueing.load.notes import LoadHasNoEffect, WaitsTooLong
from kwiken.tail.queueing.load.simulate import simulate_load
from kwiken.tail.queueing.load.stage_model import LoadModel, StageModel, pilot
from kwiken.tail.queueing.simulator.network import simulate_queues
from kwiken.tail.queueing.simulator.service_times import Constant, LogNormal
from kwiken.tail.queueing.simulator.station import Station
from tests.support.models.notes import of_kind
from tests.support.models.queue_profiles import CHAIN, queue_profile, rate_of


@pytest.fixture(scope="module")
def profile() -> Profile:
    return queue_profile(rate_of(0.5), requests=40_000, seed=3)


@pytest.fixture(scope="module")
def model(profile: Profile) -> LoadModel:
    return load_model(profile)


class TestTakenApart:
    def test_its_own_load_gives_its_own_percentiles(self, profile: Profile, model: LoadModel) -> None:
        assert model.rate_per_s == pytest.approx(rate_of(0.5), rel=0.02)
        assert not model.notes
        simulated = simulate_load(model, requests=40_000).before
        measured = ladder(profile.latency_ms)
        for name in ("p50_ms", "p90_ms", "p99_ms"):
            assert getattr(simulated, name) == pytest.approx(getattr(measured, name), rel=0.05), name

    @pytest.mark.parametrize("factor", [0.5, 1.4])
    def test_other_loads_are_predicted(self, model: LoadModel, factor: float) -> None:
        """The service, run at the other load: p50 and p90 within 10%, p99 within 15%."""
        simulated = simulate_load(model, factor=factor, requests=40_000).before
        truth = ladder(queue_profile(rate_of(0.5 * factor), requests=80_000, seed=4).latency_ms)
        for name in ("p50_ms", "p90_ms", "p99_ms"):
            near = 0.15 if name == "p99_ms" else 0.1  # over seeds the p99 is predicted 14% too high
            assert getattr(simulated, name) == pytest.approx(getattr(truth, name), rel=near), name

    def test_rests_are_found(self, model: LoadModel) -> None:
        """The rest of `fetch` was log-normal of mean 4 ms, that of `rank` nothing."""
        assert np.nanmean(model.stages["fetch"].rest_ms) == pytest.approx(4.0, rel=0.05)
        assert np.nanmean(model.stages["rank"].rest_ms) < 0.1 * 5.0

    def test_utilisation_is_measured(self, profile: Profile, model: LoadModel) -> None:
        for stage in model.stages.values():
            assert stage.utilisation == pytest.approx(0.5, rel=0.02)
            assert stage.busy_at(1.5) == pytest.approx(1.5 * stage.utilisation)
            assert stage.busy_at(stage.factor_at(0.9)) == pytest.approx(0.9)
        assert known_utilisation(profile, QueueSettings())["rank"] == pytest.approx(0.5, rel=0.02)

    def test_inflated_calls_keep_their_ranks_and_gaps(self, profile: Profile) -> None:
        holes = replace(profile.stages[0], calls_ms=profile.stages[0].calls_ms.copy())
        holes.calls_ms[::7] = np.nan
        stage = load_model(replace(profile, stages=(holes, profile.stages[1]))).stages["fetch"]
        slower = stage.calls_at(1.5, seed=0)
        np.testing.assert_array_equal(np.isnan(slower), np.isnan(stage.calls_ms))
        there = ~np.isnan(slower)
        assert spearmanr(stage.calls_ms[there], slower[there]).statistic > 0.9999
        assert np.nanmean(slower) > np.nanmean(stage.calls_ms)
        np.testing.assert_array_equal(stage.calls_at(1.0, seed=0), stage.calls_ms)


class TestPilot:
    @pytest.mark.parametrize(("requests", "calls"), [(300, 4096), (3000, 12_000), (40_000, 32_768)])
    def test_the_pilot_is_as_long_as_the_profile_needs(self, requests: int, calls: int) -> None:
        stage = load_model(queue_profile(rate_of(0.3), requests=requests)).stages["rank"]
        assert stage.pilot_calls == calls

    def test_a_simulated_distribution_is_cached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stage = load_model(queue_profile(rate_of(0.3), requests=2000)).stages["rank"]
        loads: list[float] = []

        def seen(model: StageModel, rest: Floats, *, factor: float, seed: int) -> Floats:
            loads.append(factor)
            return pilot(model, rest, factor=factor, seed=seed)

        monkeypatch.setattr(stage_model, "pilot", seen)
        first = stage.calls_at(1.5, seed=0)
        np.testing.assert_array_equal(stage.calls_at(1.5, seed=0), first)
        assert loads == [1.0, 1.5]
        for factor in (1.6, 1.7, 1.8, 1.9):
            stage.calls_at(factor, seed=0)
        np.testing.assert_array_equal(stage.calls_at(1.5, seed=0), first)
        assert loads == [1.0, 1.5, 1.6, 1.7, 1.8, 1.9, 1.5]

    def test_the_model_has_the_utilisation_asked_for(self, profile: Profile) -> None:
        """Chance in arrivals and work is taken out: what the replicas do is what they should."""
        stage = load_model(profile).stages["rank"]
        rest = np.zeros(5000)
        calm, busy = (pilot(stage, rest, factor=factor, seed=3) for factor in (1e-3, 1.6))
        assert calm.mean() == pytest.approx(stage.station.work.mean_ms)
        assert busy.mean() > 1.2 * calm.mean()


class TestWhatIsGiven:
    def test_replicas_and_utilisation_stand_in_for_what_was_not_measured(self) -> None:
        profile = queue_profile(rate_of(0.5), requests=3000, known=False)
        with pytest.raises(InputError, match="no stage has a measured busy time"):
            load_model(profile)
        with pytest.raises(InputError, match="the number of replicas of stage 'rank' is not known"):
            load_model(profile, QueueSettings(utilisation={"rank": 0.5}))
        model = load_model(profile, QueueSettings(utilisation={"rank": 0.5}, replicas={"rank": 4}))
        assert model.stages["rank"].utilisation == pytest.approx(0.5)
        assert model.stages["rank"].station.work.mean_ms == pytest.approx(5.0, rel=0.05)
        assert model.stages["fetch"].station.replicas is None
        assert LoadHasNoEffect(("fetch",)) in model.notes

    def test_what_calls_do_not_explain_is_background(self) -> None:
        profile = queue_profile(rate_of(0.3), requests=3000)
        stage = load_model(profile, QueueSettings(utilisation={"rank": 0.6})).stages["rank"]
        assert stage.station.background is not None
        assert stage.utilisation == pytest.approx(0.6, rel=0.02)
        assert stage.busy_at(2.0) == pytest.approx(0.9, rel=0.02)  # the background does not double

    def test_own_time_is_a_server_where_its_use_is_given(self) -> None:
        profile = queue_profile(rate_of(0.3), requests=3000)
        own = replace(
            profile.stages[0], name=f"chain:request{OWN_TIME}", reissuable=False, busy_ms=None, replicas=None
        )
        profile = replace(profile, stages=(own, replace(profile.stages[1], after=(own.name,))))
        assert load_model(profile).stages[own.name].station.replicas is None
        model = load_model(profile, QueueSettings(utilisation={own.name: 0.4}, replicas={own.name: 1}))
        assert model.stages[own.name].utilisation == pytest.approx(0.4)

    def test_too_few_replicas_are_noticed(self) -> None:
        profile = queue_profile(rate_of(0.5), requests=5000)
        with pytest.raises(InputError, match=r"stage 'rank' would have been busy 20\d%"):
            load_model(profile, QueueSettings(replicas={"rank": 1}))
        model = load_model(profile, QueueSettings(replicas={"rank": 3}))
        [note] = of_kind(model.notes, WaitsTooLong)
        assert note.excess == {"rank": model.stages["rank"].excess_wait}

    def test_a_load_beyond_the_replicas_is_refused(self) -> None:
        model = load_model(queue_profile(rate_of(0.5), requests=3000))
        with pytest.raises(InputError, match=r"stage '\w+' would be busy 1\d\d% of the time with 4 replicas"):
            simulate_load(model, factor=2.4)
        for factor in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(InputError, match="load"):
                simulate_load(model, factor=factor)

    @pytest.mark.parametrize(
        ("settings", "pattern"),
        [
            ({"replicas": {"x": 1}}, "replicas: stage 'x' is not in the profile; it has: fetch, rank"),
            ({"utilisation": {"x": 0.1}}, "utilisation: stage 'x'"),
            ({"utilisation": {"rank": 1.0}}, "below 1, not 1.0"),
            (
                {"rate_per_s": 0.0},
                "queues: rate_per_s must be from 1e-06 to 1e[+]06 requests a second, not 0",
            ),
            (
                {"rate_per_s": 1e300},
                "queues: rate_per_s must be from 1e-06 to 1e[+]06 requests a second, not 1e[+]300",
            ),
        ],
    )
    def test_bad_settings(self, settings: dict[str, Any], pattern: str) -> None:
        profile = queue_profile(rate_of(0.3), requests=200)
        with pytest.raises(InputError, match=pattern):
            load_model(profile, QueueSettings(**settings))

    def test_a_bad_correlation(self) -> None:
        with pytest.raises(InputError, match="copy_correlation"):
            load_model(queue_profile(rate_of(0.3), requests=200), copy_correlation=1.0)

    def test_no_requests_make_no_queues(self) -> None:
        with pytest.raises(InputError, match="the profile has no requests"):
            load_model(part_of(queue_profile(rate_of(0.3), requests=200), np.arange(0)))

    def test_requests_at_one_moment_have_no_rate(self) -> None:
        profile = queue_profile(rate_of(0.3), requests=200)
        at_once = replace(profile, started_s=np.zeros(200))
        assert known_utilisation(at_once, QueueSettings()) == {}
        with pytest.raises(InputError, match="rate"):
            load_model(at_once)
        model = load_model(at_once, QueueSettings(rate_per_s=rate_of(0.3)))
        assert model.stages["rank"].utilisation == pytest.approx(0.3)


class TestCopiesLikeTheirCalls:
    def test_a_linked_copy_of_a_slow_rest_is_slow(self) -> None:
        """With correlation near 1 a copy's rest is its call's, so it wins nothing."""
        profile = queue_profile(
            20.0,
            stations=[Station(name="a", work=LogNormal(1.0, 0.1), rest=LogNormal(20.0, 1.0), replicas=20)],
            requests=4000,
        )
        found = []
        for rho in (0.0, 0.98):
            station = load_model(profile, copy_correlation=rho).stages["a"].station
            assert station.copy_correlation == rho
            raced = replace(station, reissue=Reissue(after_ms=0.0))
            alone = queue_profile_latency(station), queue_profile_latency(raced)
            found.append(float(alone[1].mean() / alone[0].mean()))
        assert found[0] < 0.7
        assert found[1] > 0.85


def queue_profile_latency(station: Station) -> Floats:
    found = simulate_queues([station], np.arange(0.0, 250_000.0, 50.0), rng=np.random.default_rng(1))
    return found.latency_ms


def test_no_load_is_invented_for_a_stage_without_calls() -> None:
    profile = queue_profile(rate_of(0.3), requests=500)
    never = replace(
        profile.stages[0],
        name="never",
        after=(),
        calls_ms=np.full((500, 1), np.nan),
        busy_ms=None,
        replicas=None,
    )
    model = load_model(replace(profile, stages=(*profile.stages, never)))
    assert isinstance(model.stages["never"].station.rest, Constant)
    assert CHAIN[0].name in simulate_load(model, requests=500).stages
