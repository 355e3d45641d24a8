"""Pauses of replicas inferred from traces: told from slow calls, and more frequent per call at low load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
from kwiken.tail.queueing.load.simulate import simulate_load
from kwiken.tail.queueing.load.stalls import Bools, Stalls, lead_ms, stalls_of
from tests.support.models.pauses import PAUSE_MS, pausing_profile


class TestTelling:
    def test_pauses_are_seen_and_how_long_they_were(self) -> None:
        stalls = stalls_of(pausing_profile(60.0, 1500.0, 1), 60.0)["a"]
        assert stalls.length_ms.mean() == pytest.approx(PAUSE_MS, rel=0.1)
        assert stalls.rate_per_ms == pytest.approx(60.0 / 3 / 1e3, rel=0.02)
        # three replicas pause 0.2 times a second each; what was left of some is too short to tell
        found = len(stalls.length_ms) / 1500.0
        assert 0.6 * 0.6 < found < 0.6 * (1 - np.exp(-2.0))

    def test_calls_that_are_slow_by_themselves_are_left_alone(self) -> None:
        profile = pausing_profile(60.0, 200.0, 2, paused=0.0)
        slow = np.random.default_rng(3).random(profile.requests) < 0.03
        calls = profile.stages[0].calls_ms + np.where(slow, 100.0, 0.0)[:, None]
        stage = replace(profile.stages[0], calls_ms=calls)
        assert stalls_of(replace(profile, stages=(stage,), latency_ms=calls[:, 0]), 60.0) == {}

    def test_stalls_need_replicas_and_other_calls(self) -> None:
        profile = pausing_profile(60.0, 200.0, 4)
        blind = replace(profile.stages[0], asked=None, replica_names=())
        assert stalls_of(replace(profile, stages=(blind,)), 60.0) == {}
        assert stalls_of(pausing_profile(60.0, 2.0, 5), 60.0) == {}

    def test_sibling_calls_show_stalls_too(self) -> None:
        """Calls of one visit at one replica: caught together, or only the slow one was slow."""
        base = pausing_profile(60.0, 20.0, 6, paused=0.0)
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
    @pytest.mark.parametrize("factor", [pytest.param(0.4, marks=pytest.mark.slow), 2.0])
    def test_so_many_calls_are_caught(self, factor: float) -> None:
        """Learned at one load, true at another: the share of calls that take longer than half a pause."""
        learned = pausing_profile(60.0, 1500.0, 7)
        truth = pausing_profile(60.0 * factor, 1000.0 / factor, 8)
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
        learned = pausing_profile(60.0, 1500.0, 9)
        model = load_model(learned, QueueSettings(rate_per_s=60.0))
        stalls = model.stalls["a"]
        caught: Bools = np.asarray(stalls.caught.any(axis=1))
        rng = np.random.default_rng(0)
        shares = [caught[model.rows(factor, 200_000, rng)].mean() for factor in (1.0, 0.5, 2.0)]
        wanted = caught.mean() * np.array(
            [1.0, stalls.probability_factor(0.5), stalls.probability_factor(2.0)]
        )
        np.testing.assert_allclose(shares, wanted, rtol=0.08)

    @pytest.mark.parametrize("factor", [1.0, 0.5])
    def test_requests_are_drawn_from_the_given_ones(self, factor: float) -> None:
        learned = pausing_profile(60.0, 1500.0, 9)
        model = load_model(learned, QueueSettings(rate_per_s=60.0))
        stalls = model.stalls["a"]
        among = np.arange(0, learned.requests, 2)
        rows = model.rows(factor, 100_000, np.random.default_rng(0), among)
        assert set(rows.tolist()) <= set(among.tolist())
        caught: Bools = np.asarray(stalls.caught.any(axis=1))
        wanted = caught[among].mean() * stalls.probability_factor(factor)
        assert caught[rows].mean() == pytest.approx(wanted, rel=0.1)

    def test_however_many_are_caught_chances_stay_chances(self) -> None:
        learned = pausing_profile(60.0, 1000.0, 10)
        model = load_model(learned, QueueSettings(rate_per_s=60.0))
        for share in (0.0, 0.7, 1.0):
            caught = (np.arange(learned.requests) < share * learned.requests)[:, None]
            stalls = Stalls(caught, 1e-3, np.array([100.0]))
            rows = replace(model, stalls={"a": stalls}).rows(0.1, 10_000, np.random.default_rng(0))
            assert caught[rows].mean() <= max(0.92, share)
