"""Own time holds what fan-outs wait for until they are sent: it is learned, and told again, only once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken import Profile, SpanMatch, StageProfile
from kwiken._dag import end_to_end
from kwiken._profile import Floats
from kwiken.queueing import (
    Constant,
    Exponential,
    LoadModel,
    LogNormal,
    QueueSimulation,
    StageModel,
    StageQueues,
    Station,
    _together,
    load_model,
    poisson_arrivals,
    simulate_load,
    simulate_queues,
)
from kwiken.queueing import _network as network
from kwiken.queueing._flow import StageCalls
from kwiken.queueing._front import fronts, turns_before
from kwiken.queueing._together import _seen_ms

OWN = "chain:request (own time)"
RATE = 30.0
WIDTH = 8
SERVICE = (
    Station(name=OWN, work=Constant(0.0), rest=Exponential(0.5), replicas=None, front_ms=1.0),
    Station(
        name="fan",
        after=(OWN,),
        work=LogNormal(1.0, 0.5),
        rest=LogNormal(4.0, 0.5),
        replicas=16,
        fanout=WIDTH,
        dispatch="aged",
        front_ms=1.2,
    ),
    Station(name="sink", after=("fan",), work=LogNormal(1.0, 0.5), replicas=4, dispatch="aged", front_ms=1.2),
)
BUSY_MS = 1.0 + (WIDTH + 1) * 1.2


def stage_profile(
    station: Station, calls_ms: Floats, *, busy_ms: float | None = None, own: bool = False
) -> StageProfile:
    return StageProfile(
        name=station.name,
        after=station.after,
        match=SpanMatch(service="chain", operation=station.name),
        calls_ms=calls_ms,
        censored=np.zeros(calls_ms.shape, np.bool_),
        busy_ms=busy_ms,
        busy_variation=None if own else 0.5,
        replicas=station.replicas,
        reissuable=not own,
    )


def traced(requests: int, seed: int) -> Profile:
    """What traces of the service would say: calls from their beginning, and own time that is left."""
    rng = np.random.default_rng(seed)
    arrivals = poisson_arrivals(RATE, requests, rng)
    there: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    stage = network._stage

    def noted(station: Station, *others: object) -> object:
        found = stage(station, *others)  # type: ignore[arg-type]
        calls = found[1]
        assert isinstance(calls, StageCalls)
        there[station.name] = calls.there
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "_stage", noted)
        found = simulate_queues(SERVICE, arrivals, rng=rng, processors=2)
    calls_ms: dict[str, Floats] = {}
    for station in SERVICE[1:]:
        placed = np.full(requests * station.fanout, nan)
        placed[there[station.name]] = found.stages[station.name].call_ms
        calls_ms[station.name] = placed.reshape(requests, station.fanout)
    slowest = {name: calls.max(axis=1) for name, calls in calls_ms.items()}
    for name, expected in slowest.items():
        np.testing.assert_allclose(found.stages[name].slowest_ms, expected)
    path = end_to_end(SERVICE, {OWN: np.zeros(requests), **slowest})
    own = np.maximum(0.0, found.latency_ms - path)[:, None]
    stages = (
        stage_profile(SERVICE[0], own, busy_ms=BUSY_MS, own=True),
        *[stage_profile(station, calls_ms[station.name], busy_ms=1.0) for station in SERVICE[1:]],
    )
    return Profile(
        service="chain", stages=stages, latency_ms=found.latency_ms, started_s=1.7e9 + arrivals / 1e3
    )


@pytest.fixture(scope="module")
def profile() -> Profile:
    return traced(4_000, 1)


def learned(profile: Profile) -> LoadModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_together, "REQUESTS", 3_000)
        return load_model(profile, rate_per_s=RATE, processors=2)


@pytest.fixture(scope="module")
def model(profile: Profile) -> LoadModel:
    return learned(profile)


def foretold_ms(model: LoadModel) -> float:
    """The median of requests at the profile's own load."""
    return float(np.median(simulate_load(model, requests=3_000).before_ms))


def old_seen_ms(_: LoadModel, found: QueueSimulation, name: str) -> Floats:
    """As if the own time were what its own stage takes."""
    return found.stages[name].call_ms


class TestAtItsOwnLoad:
    def test_a_stagger_is_counted_once(self, profile: Profile, model: LoadModel) -> None:
        """The fan-out's sends take 4.8 ms, of which a profile's own time holds some two."""
        assert np.median(profile.stages[0].calls_ms) > 1.0 + 0.5 + 1.0
        assert foretold_ms(model) == pytest.approx(np.median(profile.latency_ms), rel=0.03)

    def test_it_would_be_counted_twice(self, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
        """Own time of its stage alone put right against all that is left: the test above can fail."""
        monkeypatch.setattr(_together, "_seen_ms", old_seen_ms)
        assert foretold_ms(learned(profile)) > 1.06 * np.median(profile.latency_ms)

    def test_the_front_has_the_work_that_it_had(self, model: LoadModel) -> None:
        """The truth is 1 ms for a request and 1.2 for a call; what is shared out is all of it."""
        fronts = {name: stage.station.front_ms for name, stage in model.stages.items()}
        assert fronts[OWN] + (WIDTH + 1) * fronts["fan"] == pytest.approx(BUSY_MS)
        assert fronts["fan"] == fronts["sink"] == pytest.approx(1.2, rel=0.15)

    def test_what_comes_with_the_time_is_the_same_at_every_load(self, profile: Profile) -> None:
        """The use at the own load stays, at less it falls by less, and a request costs the front less."""
        ended_s = np.sort(profile.started_s + profile.latency_ms / 1e3)
        gaps = np.diff(ended_s, prepend=2 * ended_s[0] - ended_s[1])
        order = np.argsort(profile.started_s + profile.latency_ms / 1e3)
        worked_ms = np.empty((len(order), 1))
        busy_ms = 0.7 * BUSY_MS  # of more nobody would know what came with the time
        worked_ms[order, 0] = busy_ms * (0.75 + 0.25 * gaps / gaps.mean())
        own = replace(profile.stages[0], worked_ms=worked_ms, busy_ms=99.0)
        model = learned(replace(profile, stages=(own, *profile.stages[1:])))
        fronts = {name: stage.station.front_ms for name, stage in model.stages.items()}
        assert fronts[OWN] + (WIDTH + 1) * fronts["fan"] == pytest.approx(0.75 * busy_ms, rel=0.01)
        assert model.shared is not None
        assert model.shared.others == pytest.approx(0.25 * busy_ms * RATE / 1e3, rel=0.03)
        even = replace(own, worked_ms=None, busy_ms=busy_ms)
        before = learned(replace(profile, stages=(even, *profile.stages[1:]))).shared
        assert before is not None
        assert model.shared.busy_at(RATE) == pytest.approx(before.busy_at(RATE), rel=0.01)
        assert model.shared.busy_at(RATE / 2) > 1.05 * before.busy_at(RATE / 2)


def model_of(own_ms: Floats, busy_ms: float | None, calls: Mapping[str, Floats], **own: object) -> LoadModel:
    """A profile of own time and of stages after it, with these calls."""
    stations = [
        Station(name=OWN, work=Constant(0.0), replicas=None),
        *[Station(name=name, after=(OWN,), work=Constant(1.0)) for name in calls],
    ]
    stages = {
        station.name: StageModel(station, 0.0, calls_ms, calls_ms, 1.0)
        for station, calls_ms in zip(stations, [own_ms, *calls.values()], strict=True)
    }
    if own:
        stages[OWN] = replace(stages[OWN], station=replace(stations[0], **own))  # type: ignore[arg-type]
    profiles = [stage_profile(stations[0], own_ms, busy_ms=busy_ms, own=True)]
    profiles += [stage_profile(station, stages[station.name].calls_ms) for station in stations[1:]]
    profile = Profile(
        service="chain",
        stages=tuple(profiles),
        latency_ms=np.ones(len(own_ms)),
        started_s=np.arange(float(len(own_ms))),
    )
    return LoadModel(profile, 1.0, stages, ())


def fronts_of(model: LoadModel) -> dict[str, float]:
    return fronts(model, {name: stage.calls_per_request for name, stage in model.stages.items()})


def own_ms(lightest: float) -> Floats:
    """(20, 1): a tenth of the requests met nobody and took that long."""
    return np.array([[lightest]] * 3 + [[lightest + 50.0]] * 17)


class TestFronts:
    FOUR: Floats = np.ones((20, 4))

    def test_a_fan_outs_sends_are_in_own_time(self) -> None:
        """10 ms for a request: 2 by itself and 2 a call, of which the slowest waits for 1.5 sends of 1 ms."""
        assert fronts_of(model_of(own_ms(3.5), 10.0, {"a": self.FOUR})) == pytest.approx({OWN: 2.0, "a": 2.0})

    def test_without_a_fan_out_own_time_is_what_it_is(self) -> None:
        found = fronts_of(model_of(own_ms(3.5), 10.0, {"a": self.FOUR[:, :1], "b": self.FOUR[:, :1]}))
        assert found == pytest.approx({OWN: 3.5, "a": 3.25, "b": 3.25})

    def test_fan_outs_add_up(self) -> None:
        """22 ms: 4 by itself, 3 a call; 1.5 and half a send of 1.5 ms are waited for."""
        found = fronts_of(model_of(own_ms(4.0 + 2.0 * 1.5), 22.0, {"a": self.FOUR, "b": self.FOUR[:, :2]}))
        assert found == pytest.approx({OWN: 4.0, "a": 3.0, "b": 3.0})

    def test_visits_that_are_skipped_wait_for_nothing(self) -> None:
        """Four calls in every other request: 2 a request, and .75 sends waited for; 7 ms, 3 by itself."""
        calls = self.FOUR.copy()
        calls[::2] = nan
        found = fronts_of(model_of(own_ms(3.0 + 0.75 * 1.0), 7.0, {"a": calls}))
        assert found == pytest.approx({OWN: 3.0, "a": 2.0})

    def test_own_time_shorter_than_the_sends_leaves_nothing(self) -> None:
        """All 10 ms are the calls': 1.5 sends of 1.25 ms are more than the 1 ms that own time is."""
        assert fronts_of(model_of(own_ms(1.0), 10.0, {"a": self.FOUR})) == pytest.approx({OWN: 0.0, "a": 2.5})

    def test_own_time_longer_than_all_work_has_it_all(self) -> None:
        found = fronts_of(model_of(own_ms(12.0), 10.0, {"a": self.FOUR}))
        assert found == pytest.approx({OWN: 10.0, "a": 0.0})

    @pytest.mark.parametrize("busy_ms", [None, 0.0])
    def test_work_that_nobody_measured(self, busy_ms: float | None) -> None:
        found = fronts_of(model_of(own_ms(3.5), busy_ms, {"a": self.FOUR}))
        assert found == pytest.approx({OWN: 0.0, "a": 0.0})

    def test_own_time_that_is_never_known_has_no_share(self) -> None:
        model = model_of(np.full((20, 1), nan), 6.0, {"a": np.ones((20, 1))})
        assert fronts_of(model) == {OWN: 0.0, "a": 0.0}

    def test_own_time_that_has_replicas_is_a_stage_like_others(self) -> None:
        assert fronts_of(model_of(own_ms(3.5), 10.0, {"a": self.FOUR}, replicas=2)) == {OWN: 0.0, "a": 0.0}

    def test_hardly_any_calls(self) -> None:
        """One in twenty requests makes a call: it has no more work than all requests' own would leave."""
        calls = np.full((20, 1), nan)
        calls[0] = 1.0
        found = fronts_of(model_of(own_ms(3.5), 10.0, {"a": calls}))
        assert found == pytest.approx({OWN: 3.5, "a": 6.5})

    @given(
        lightest=st.floats(0.0, 30.0),
        busy_ms=st.floats(0.0, 30.0),
        widths=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    )
    def test_own_time_and_waited_sends_are_the_lightest(
        self, lightest: float, busy_ms: float, widths: list[int]
    ) -> None:
        calls = {str(i): np.ones((20, width)) for i, width in enumerate(widths)}
        found = fronts_of(model_of(own_ms(lightest), busy_ms, calls))
        alone, each = found[OWN], found["0"]
        assert alone + each * sum(widths) == pytest.approx(busy_ms, abs=1e-9)
        assert min(alone, each) >= 0.0
        waited = sum(width - 1 for width in widths) / 2 * each / 2
        if alone == busy_ms:
            assert lightest >= busy_ms - 1e-9
        elif alone == 0.0:
            assert waited >= lightest - 1e-9
        else:
            assert alone + waited == pytest.approx(lightest)


class TestTurnsBefore:
    @staticmethod
    def stage(calls_ms: Floats) -> StageModel:
        return StageModel(Station(name="a", work=Constant(1.0)), 0.0, calls_ms, calls_ms, 1.0)

    @pytest.mark.parametrize(("width", "turns"), [(1, 0.0), (2, 0.5), (4, 1.5), (9, 4.0)])
    def test_half_of_the_others(self, width: int, turns: float) -> None:
        assert turns_before(self.stage(np.ones((5, width)))) == turns

    def test_of_four_three_one_and_no_calls(self) -> None:
        calls = np.array([[1, 1, 1, 1], [1, nan, 1, 1], [nan, nan, 1, nan], [nan] * 4])
        assert turns_before(self.stage(calls)) == (1.5 + 1.0 + 0.0 + 0.0) / 4

    def test_nobody(self) -> None:
        assert turns_before(self.stage(np.full((3, 2), nan))) == 0.0
        assert turns_before(self.stage(np.empty((0, 2)))) == 0.0


class TestSeen:
    """Two requests: own time, then `a` (5 and 7 ms), then `b` (3 ms, or none) beside `c` (4 and 1 ms)."""

    @staticmethod
    def queues(slowest: list[float], latency: list[float]) -> StageQueues:
        none = np.empty(0)
        return StageQueues(
            latency_ms=np.array(latency),
            slowest_ms=np.array(slowest),
            call_ms=np.array([77.0, 78.0]),
            wait_ms=none,
            calls=np.ones(2, np.int64),
            copies=np.zeros(2, np.int64),
            denied=0,
            utilisation=none,
            extra_load=0.0,
        )

    def found(self, latency: list[float]) -> tuple[LoadModel, QueueSimulation]:
        model = model_of(own_ms(1.0), 1.0, {name: np.ones((20, 1)) for name in "abc"})
        stages = dict(model.stages)
        for name in "bc":
            stages[name] = replace(stages[name], station=replace(stages[name].station, after=("a",)))
        queues = {
            OWN: self.queues([900.0, 900.0], [900.0, 900.0]),
            "a": self.queues([5.0, 7.0], [9.0, 20.0]),
            "b": self.queues([3.0, 0.0], [8.0, 0.0]),
            "c": self.queues([4.0, 1.0], [4.0, 1.0]),
        }
        return replace(model, stages=stages), QueueSimulation(np.array(latency), queues)

    def test_own_time_is_what_the_longest_path_of_calls_leaves(self) -> None:
        model, found = self.found([12.0, 30.0])
        assert _seen_ms(model, found, OWN).tolist() == [12.0 - 5.0 - 4.0, 30.0 - 7.0 - 1.0]

    def test_it_is_never_less_than_nothing(self) -> None:
        model, found = self.found([8.5, 30.0])
        assert _seen_ms(model, found, OWN).tolist() == [0.0, 22.0]

    def test_other_stages_are_seen_call_by_call(self) -> None:
        model, found = self.found([12.0, 30.0])
        for name in "abc":
            assert _seen_ms(model, found, name).tolist() == [77.0, 78.0]
