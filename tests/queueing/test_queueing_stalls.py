"""Pauses of replicas inferred from traces: told from slow calls, and more frequent per call at low load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken.plan import SpanMatch
from kwiken.profile import Profile, StageProfile
from kwiken.queueing.load import QueueSettings, load_model, simulate_load
from kwiken.queueing.load.stalls import Bools, Stalls, lead_ms, stalls_of

PAUSE_MS = 100.0
PAUSED = 0.02  # share of its time that a replica stands still
REPLICAS = 3
WORK_MS, REST_MS, VARIATION = 2.0, 1.0, 0.3


class PausingReplica:
    """One call at a time; still for `PAUSE_MS` now and then, where it pauses at all."""

    def __init__(self, rng: np.random.Generator, *, pauses: bool) -> None:
        self.rng, self.pauses = rng, pauses
        self.free = self.goes_on = 0.0
        self.stops = self.next_stop()
        self.flight: list[tuple[float, float]] = []  # (came, answer)

    def next_stop(self) -> float:
        between_ms = PAUSE_MS * (1 - PAUSED) / PAUSED
        return self.goes_on + float(self.rng.exponential(between_ms)) if self.pauses else np.inf

    def score(self, now: float) -> float:
        """As a picker judges it: by the age of the oldest call, and how many there are."""
        self.flight = [(arrival, answer) for arrival, answer in self.flight if answer > now]
        oldest = min((arrival for arrival, _ in self.flight), default=now)
        return max(WORK_MS + REST_MS, now - oldest) * (len(self.flight) + 1)

    def serve(self, now: float, work_ms: float) -> float:
        """Time of its answer."""
        end = max(now, self.free) + work_ms
        while self.stops < end:
            self.goes_on = self.stops + PAUSE_MS
            if self.goes_on > max(now, self.free):  # it stood still while the call waited, or was served
                end += self.goes_on - max(now, self.free, self.stops)
            self.stops = self.next_stop()
        self.free = end
        self.flight.append((now, end + REST_MS))
        return end + REST_MS


def profile_of(rate_per_s: float, seconds: float, seed: int, *, pauses: bool = True) -> Profile:
    """Profile of one stage as traces would give it, each call at the better of two replicas."""
    rng = np.random.default_rng(seed)
    count = int(rate_per_s * seconds)
    arrivals = np.cumsum(rng.standard_exponential(count)) * 1e3 / rate_per_s
    spread = np.log1p(VARIATION**2)
    work_ms = WORK_MS * rng.lognormal(-spread / 2, np.sqrt(spread), count)
    replicas = [PausingReplica(child, pauses=pauses) for child in rng.spawn(REPLICAS)]
    one = rng.integers(REPLICAS, size=count)
    other = (one + 1 + rng.integers(REPLICAS - 1, size=count)) % REPLICAS
    asked, latency_ms = np.empty(count, np.int64), np.empty(count)
    calls = zip(arrivals.tolist(), work_ms.tolist(), one.tolist(), other.tolist(), strict=True)
    for call, (now, work, *choices) in enumerate(calls):
        asked[call] = min(choices, key=lambda choice: replicas[choice].score(now))
        latency_ms[call] = replicas[asked[call]].serve(now, work) - now
    stage = StageProfile(
        name="a",
        match=SpanMatch(service="shop-a", operation="a"),
        calls_ms=latency_ms[:, None],
        censored=np.zeros((count, 1), np.bool_),
        busy_ms=WORK_MS,
        busy_variation=VARIATION,
        replicas=REPLICAS,
        asked=asked[:, None],
        replica_names=("a-0", "a-1", "a-2"),
    )
    return Profile(service="shop", stages=(stage,), latency_ms=latency_ms, started_s=1e9 + arrivals / 1e3)


class TestTelling:
    def test_pauses_are_seen_and_how_long_they_were(self) -> None:
        stalls = stalls_of(profile_of(60.0, 1500.0, 1), 60.0)["a"]
        assert stalls.length_ms.mean() == pytest.approx(PAUSE_MS, rel=0.1)
        assert stalls.rate_per_ms == pytest.approx(60.0 / 3 / 1e3, rel=0.02)
        # three replicas pause 0.2 times a second each; what was left of some is too short to tell
        found = len(stalls.length_ms) / 1500.0
        assert 0.6 * 0.6 < found < 0.6 * (1 - np.exp(-2.0))

    def test_calls_that_are_slow_by_themselves_are_left_alone(self) -> None:
        profile = profile_of(60.0, 200.0, 2, pauses=False)
        slow = np.random.default_rng(3).random(profile.requests) < 0.03
        calls = profile.stages[0].calls_ms + np.where(slow, 100.0, 0.0)[:, None]
        stage = replace(profile.stages[0], calls_ms=calls)
        assert stalls_of(replace(profile, stages=(stage,), latency_ms=calls[:, 0]), 60.0) == {}

    def test_stalls_need_replicas_and_other_calls(self) -> None:
        profile = profile_of(60.0, 200.0, 4)
        blind = replace(profile.stages[0], asked=None, replica_names=())
        assert stalls_of(replace(profile, stages=(blind,)), 60.0) == {}
        assert stalls_of(profile_of(60.0, 2.0, 5), 60.0) == {}

    def test_sibling_calls_show_stalls_too(self) -> None:
        """Calls of one visit at one replica: caught together, or only the slow one was slow."""
        base = profile_of(60.0, 20.0, 6, pauses=False)
        rows = np.arange(base.requests)
        slow = np.where(rows % 40 == 0, 150.0, 0.0)
        asked = np.tile([0, 0], (base.requests, 1))
        for both, told in ((True, True), (False, False)):
            calls = np.column_stack((base.latency_ms + slow, base.latency_ms + (slow if both else 0.0)))
            stage = replace(
                base.stages[0],
                calls_ms=calls,
                censored=np.zeros(calls.shape, np.bool_),
                asked=asked,
                replica_names=("a-0",),
                replicas=1,
            )
            started = np.asarray(1e9 + rows * 0.2)  # nobody else comes meanwhile
            profile = replace(base, stages=(stage,), latency_ms=calls.max(axis=1), started_s=started)
            assert bool(stalls_of(profile, 5.0)) is told


class TestAtAnotherLoad:
    @pytest.mark.parametrize("factor", [0.4, 2.0])
    def test_so_many_calls_are_caught(self, factor: float) -> None:
        """Learned at one load, true at another: the share of calls that take longer than half a pause."""
        learned = profile_of(60.0, 1500.0, 7)
        truth = profile_of(60.0 * factor, 1000.0 / factor, 8)
        stalls = stalls_of(learned, 60.0)["a"]
        shares = [(profile.latency_ms > PAUSE_MS / 2).mean() for profile in (learned, truth)]
        model = load_model(learned, QueueSettings(rate_per_s=60.0))
        said = (simulate_load(model, factor=factor, requests=20_000).before_ms > PAUSE_MS / 2).mean()
        assert said == pytest.approx(shares[1], rel=0.25)
        assert abs(said - shares[1]) < abs(shares[0] - shares[1])
        assert said == pytest.approx(stalls.probability_factor(factor) * shares[0], rel=0.3)

    @given(
        rate=st.floats(1e-4, 1.0),
        lengths=st.lists(st.floats(1.0, 1e3), min_size=1),
        factor=st.floats(0.1, 10),
    )
    def test_rarer_calls_are_caught_more_often_each(
        self, rate: float, lengths: list[float], factor: float
    ) -> None:
        stalls = Stalls(np.zeros((1, 1), np.bool_), rate, np.array(lengths))
        assert stalls.probability_factor(1.0) == pytest.approx(1.0)
        assert stalls.extra_wait_ms(1.0) == pytest.approx(0.0, abs=1e-9 * max(lengths))
        low, high = sorted((1.0, factor))
        assert stalls.probability_factor(low) >= stalls.probability_factor(high) * (1 - 1e-9)
        # as often as once a pause at most, and no less than that each call finds as many
        assert (
            min(1.0, 1 / factor) * (1 - 1e-9)
            <= stalls.probability_factor(factor)
            <= max(1.0, 1 / factor) * (1 + 1e-9)
        )

    @given(rate=st.floats(1e-4, 1.0), length=st.floats(1.0, 1e3))
    def test_the_lead_lies_in_the_first_half_of_a_pause(self, rate: float, length: float) -> None:
        lead = lead_ms(np.array([length]), rate)[0]
        assert -1e-6 * length <= lead <= min(length / 2, 1 / rate) * (1 + 1e-6)

    def test_requests_are_drawn_as_they_would_be_met(self) -> None:
        learned = profile_of(60.0, 1500.0, 9)
        model = load_model(learned, QueueSettings(rate_per_s=60.0))
        stalls = model.stalls["a"]
        caught: Bools = np.asarray(stalls.caught.any(axis=1))
        rng = np.random.default_rng(0)
        shares = [caught[model.rows(factor, 200_000, rng)].mean() for factor in (1.0, 0.5, 2.0)]
        wanted = caught.mean() * np.array(
            [1.0, stalls.probability_factor(0.5), stalls.probability_factor(2.0)]
        )
        np.testing.assert_allclose(shares, wanted, rtol=0.08)

    def test_however_many_are_caught_chances_stay_chances(self) -> None:
        learned = profile_of(60.0, 1000.0, 10)
        model = load_model(learned, QueueSettings(rate_per_s=60.0))
        for share in (0.0, 0.7, 1.0):
            caught = (np.arange(learned.requests) < share * learned.requests)[:, None]
            stalls = Stalls(caught, 1e-3, np.array([100.0]))
            rows = replace(model, stalls={"a": stalls}).rows(0.1, 10_000, np.random.default_rng(0))
            assert caught[rows].mean() <= max(0.92, share)
