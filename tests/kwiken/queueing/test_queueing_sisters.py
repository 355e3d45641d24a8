"""How alike calls of one visit are, and so a call and its copy: known correlations found again, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, spearmanr

from kwiken import InputError
from kwiken._pool import Pool
from kwiken._profile import Floats
from kwiken.queueing import Constant, Empirical, Exponential, Law, LoadModel, StageModel, Station, _together
from kwiken.queueing._serve import copies_of
from kwiken.queueing._sisters import FEWEST, alike_as_sisters, longest_alike_ms
from kwiken.queueing._stalls import Bools, Stalls
from kwiken.queueing._together import _with_copies_alike, on_one_machine
from tests.support.queue_profiles import queue_profile

PAUSE_MS = 5e3


def visits(rho: float, shape: tuple[int, int], seed: int) -> Floats:
    """Rows of latencies, each log-normal; the normal scores of any two of one row have correlation rho."""
    rng = np.random.default_rng(seed)
    common, own = rng.standard_normal((shape[0], 1)), rng.standard_normal(shape)
    return np.asarray(20.0 * np.exp(np.sqrt(rho) * common + np.sqrt(1 - rho) * own))


def stage_of(calls_ms: Floats, rest_ms: Floats | None = None, *, rest: Law | None = None) -> StageModel:
    return StageModel(
        station=Station(name="a", work=Constant(1.0), rest=Constant(1.0) if rest is None else rest),
        utilisation=0.0,
        calls_ms=calls_ms,
        rest_ms=calls_ms if rest_ms is None else rest_ms,
        visits_per_s=1.0,
    )


def stalls_of(caught: Bools) -> Stalls:
    return Stalls(caught, 1e-3, np.array([PAUSE_MS]))


def nobody(calls_ms: Floats) -> Stalls:
    return stalls_of(np.zeros(calls_ms.shape, np.bool_))


def alike(calls_ms: Floats, caught: Bools | None = None) -> float:
    stalls = nobody(calls_ms) if caught is None else stalls_of(caught)
    return alike_as_sisters({"a": stage_of(calls_ms)}, {"a": stalls})["a"]


class TestAlikeAsSisters:
    @pytest.mark.parametrize("width", [2, 5])
    @pytest.mark.parametrize("rho", [0.3, 0.6, 0.85])
    def test_a_known_correlation_is_found(self, rho: float, width: int) -> None:
        assert alike(visits(rho, (60_000, width), 1)) == pytest.approx(rho, abs=0.03)

    def test_calls_by_themselves_are_not_alike(self) -> None:
        assert alike(visits(0.0, (20_000, 3), 2)) < 0.1

    def test_opposites_are_not_alike(self) -> None:
        first = visits(0.0, (20_000, 1), 3)
        assert alike(np.hstack((first, 400.0 / first))) == 0.0

    def test_calls_that_always_are_slow_together(self) -> None:
        """As alike as a copula without a bound below one can say; a station must take it."""
        first = visits(0.0, (20_000, 1), 4)
        rho = alike(np.hstack((first, first)))
        assert 0.95 < rho < 1
        Station(name="a", work=Constant(1.0), rest=Empirical(Pool.of(first)), alike=rho)

    def test_calls_that_were_not_made_say_nothing(self) -> None:
        """A fifth of the calls is missing, and some rows have none."""
        calls = visits(0.6, (30_000, 3), 5)
        calls[np.random.default_rng(5).random(calls.shape) < 0.2] = nan
        calls[:50] = nan
        assert alike(calls) == pytest.approx(0.6, abs=0.06)

    def test_caught_calls_do_not_count(self) -> None:
        """Pauses that catch whole visits would make calls sisters that are strangers, and single ones strangers of sisters."""
        rng = np.random.default_rng(6)
        strangers, sisters = visits(0.0, (20_000, 3), 6), visits(0.85, (20_000, 3), 7)
        whole = np.repeat(rng.random((20_000, 1)) < 0.04, 3, axis=1)
        single = rng.random((20_000, 3)) < 0.04
        for calls, caught, rho in ((strangers, whole, 0.0), (sisters, single, 0.85)):
            paused = calls + np.where(caught, PAUSE_MS, 0.0)
            assert alike(paused, caught) == pytest.approx(rho, abs=0.1)
            assert abs(alike(paused) - rho) > 0.3

    def test_a_stage_without_sisters_has_what_all_have(self) -> None:
        """Single calls, too few rows, or none at all: the same machine."""
        stages = {
            "fans": stage_of(visits(0.7, (10_000, 4), 8)),
            "single": stage_of(visits(0.0, (10_000, 1), 9)),
            "few": stage_of(visits(0.0, (200, 2), 10)),
            "none": stage_of(np.full((10, 2), nan)),
        }
        found = alike_as_sisters(stages, {"single": nobody(stages["single"].calls_ms)})
        assert found["fans"] == pytest.approx(0.7, abs=0.06)
        assert found["single"] == found["few"] == found["none"]
        assert found["single"] == pytest.approx(found["fans"], abs=0.02)

    def test_all_have_what_their_sisters_say_together(self) -> None:
        """Of two fan-outs, one alike and one not: something between, nearer to the one with more calls."""
        stages = {
            "alike": stage_of(visits(0.8, (4_000, 3), 11)),
            "not": stage_of(visits(0.0, (12_000, 3), 12)),
            "single": stage_of(visits(0.0, (10_000, 1), 13)),
        }
        found = alike_as_sisters(stages, {"not": nobody(stages["not"].calls_ms)})
        assert found["not"] < 0.1 < found["single"] < (found["not"] + found["alike"]) / 2 < 0.5

    def test_without_stalls_nothing_is_known(self) -> None:
        """Calls may be slow by themselves, and a copy of a slow one just as slow or not at all."""
        stages = {"a": stage_of(visits(0.85, (20_000, 3), 14)), "b": stage_of(visits(0.0, (100, 1), 15))}
        assert alike_as_sisters(stages, {}) == {"a": 0.0, "b": 0.0}

    def test_too_few_sisters_say_nothing(self) -> None:
        """Of pairs, a twentieth is slow: FEWEST sisters need ten times as many rows."""
        calls = visits(0.85, (20 * FEWEST, 2), 16)
        assert alike(calls[: 9 * FEWEST]) == 0.0
        assert alike(calls[: 11 * FEWEST]) > 0.5
        assert alike_as_sisters({"a": stage_of(calls[:, :1])}, {"a": nobody(calls[:, :1])}) == {"a": 0.0}


class TestLongestAlike:
    def test_of_rests_that_no_pause_caught(self) -> None:
        rest = np.array([[3.0, 900.0], [nan, 7.0], [800.0, 2.0]])
        caught = np.array([[False, True], [False, False], [True, False]])
        assert longest_alike_ms(stage_of(rest), stalls_of(caught)) == 7.0

    def test_without_pauses_any(self) -> None:
        assert longest_alike_ms(stage_of(np.ones((2, 1))), None) == inf

    def test_where_all_were_caught_none(self) -> None:
        calls = np.ones((2, 1))
        assert longest_alike_ms(stage_of(calls), stalls_of(np.ones((2, 1), np.bool_))) == 0.0


def test_shared_machines_know_it() -> None:
    """Each stage gets what its sisters say; one whose rest is no measured law keeps its copies to themselves."""
    calls = visits(0.7, (10_000, 3), 17)
    calls[0, 0] = PAUSE_MS
    caught = calls == PAUSE_MS
    rest = Empirical(Pool.of(calls))
    model = LoadModel(
        queue_profile(10.0, requests=10),
        10.0,
        {
            "fans": stage_of(calls, rest=rest),
            "single": stage_of(calls[:, :1], rest=rest),
            "made": stage_of(calls),
        },
        (),
        stalls={"fans": stalls_of(caught)},
    )
    stations = {name: stage.station for name, stage in _with_copies_alike(model).items()}
    assert all(station.repeats for station in stations.values())
    assert stations["fans"].alike == pytest.approx(0.7, abs=0.06)
    assert stations["single"].alike == pytest.approx(0.7, abs=0.06)
    assert stations["made"].alike == 0.0
    assert stations["fans"].alike_to_ms == calls[~caught].max()
    assert stations["single"].alike_to_ms == stations["made"].alike_to_ms == inf


def test_putting_stages_on_one_machine_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is of the rests that are left once waiting for processors is taken out."""
    monkeypatch.setattr(_together, "REQUESTS", 500)
    calls = visits(0.7, (3_000, 3), 28)
    caught = np.zeros(calls.shape, np.bool_)
    caught[calls.argmax() // 3] = True
    stages = {"a": stage_of(calls, rest=Empirical(Pool.of(calls)))}
    profile = queue_profile(10.0, requests=3_000)
    stalls = stalls_of(caught)
    model = on_one_machine(LoadModel(profile, 10.0, stages, (), stalls={"a": stalls}), 4, None, 0.0, seed=0)
    stage = model.stages["a"]
    assert stage.station.alike == pytest.approx(0.7, abs=0.1)
    assert stage.station.alike_to_ms == longest_alike_ms(stage, stalls) < stage.rest_ms.max()


# Nine in ten rests up to some 60 ms, the others pauses of 500 ms and more.
RESTS = np.concatenate(
    (
        np.random.default_rng(18).exponential(10.0, 4_500),
        500.0 + np.random.default_rng(19).random(500) * 400.0,
    )
)
MOST_MS = 200.0


def linked(rests_ms: Floats, rho: float, most_ms: float, *, weights: Sequence[float] | None = None) -> Floats:
    """(n,): the rest of a copy of each call."""
    pool = Pool.of(RESTS)
    if weights is not None:
        pool = Pool(pool.values, np.asarray(weights))
    station = Station(name="a", work=Exponential(2.0), rest=Empirical(pool), alike=rho, alike_to_ms=most_ms)
    copies = copies_of(station, np.random.default_rng(20))
    return np.array([copies(0.0, rest)[1] for rest in rests_ms.tolist()])


def spearman(normal_rho: float) -> float:
    """Of a Gaussian copula."""
    return float(6 / np.pi * np.arcsin(normal_rho / 2))


class TestCopies:
    @pytest.mark.parametrize("rho", [0.4, 0.8])
    def test_short_rests_are_alike_as_far_as_told(self, rho: float) -> None:
        calls = Pool.of(RESTS).draw(np.random.default_rng(21), 12_000)
        copies = linked(calls, rho, MOST_MS)
        both = (calls <= MOST_MS) & (copies <= MOST_MS)
        assert both.mean() == pytest.approx(0.81, abs=0.02)
        assert spearmanr(calls[both], copies[both]).statistic == pytest.approx(spearman(rho), abs=0.04)

    def test_a_pause_says_nothing_of_the_copy(self) -> None:
        """A copy of a call that was caught has any rest, and one of another call is caught as often."""
        calls = Pool.of(RESTS).draw(np.random.default_rng(22), 20_000)
        copies = linked(calls, 0.9, MOST_MS)
        caught = calls > MOST_MS
        assert kstest(copies[caught], RESTS).pvalue > 1e-3
        assert abs(spearmanr(calls[caught], copies[caught]).statistic) < 0.1
        for part in (copies[caught], copies[~caught]):
            assert (part > MOST_MS).mean() == pytest.approx(0.1, abs=0.02)
        kept = ~caught & (copies > MOST_MS)
        assert abs(spearmanr(calls[kept], copies[kept]).statistic) < 0.1

    @pytest.mark.parametrize("most_ms", [0.0, 15.0, MOST_MS, inf])
    def test_their_law_is_that_of_rests(self, most_ms: float) -> None:
        calls = Pool.of(RESTS).draw(np.random.default_rng(23), 12_000)
        copies = linked(calls, 0.8, most_ms)
        assert kstest(copies, RESTS).statistic < 0.02
        at = (0.1, 0.5, 0.85, 0.95)
        np.testing.assert_allclose(np.quantile(copies, at), np.quantile(RESTS, at), rtol=0.1)

    def test_weights_count(self) -> None:
        """Rests with half of the weight on the shortest tenth: so is the law of copies, and of pauses among them."""
        weights = np.ones(len(RESTS))
        weights[: len(RESTS) // 10] = 9.0
        weights /= weights.sum()
        pool = Pool(np.sort(RESTS), weights)
        calls = pool.draw(np.random.default_rng(24), 12_000)
        copies = linked(calls, 0.8, MOST_MS, weights=weights.tolist())
        for share in (0.25, 0.5, 0.75, 0.9):
            limit = float(pool.quantile(np.array([share]))[0])
            assert (copies <= limit).mean() == pytest.approx(share, abs=0.02)

    def test_without_a_limit_all_are_alike(self) -> None:
        """A copy of a call with the longest rest rests long too."""
        calls = Pool.of(RESTS).draw(np.random.default_rng(25), 12_000)
        copies = linked(calls, 0.9, inf)
        assert spearmanr(calls, copies).statistic == pytest.approx(spearman(0.9), abs=0.03)
        assert (copies[calls > MOST_MS] > MOST_MS).mean() > 0.5
        np.testing.assert_array_equal(copies, linked(calls, 0.9, float(RESTS.max())))

    def test_a_limit_below_all_rests_links_nothing(self) -> None:
        calls = Pool.of(RESTS).draw(np.random.default_rng(26), 2_000)
        np.testing.assert_array_equal(linked(calls, 0.9, 0.0), linked(calls, 0.0, inf))

    @given(rest_ms=st.floats(0, 2e3), most_ms=st.floats(0, 2e3), rho=st.floats(0.01, 0.99))
    def test_any_rest_has_a_copy_from_the_law(self, rest_ms: float, most_ms: float, rho: float) -> None:
        copies = linked(np.full(20, rest_ms), rho, most_ms)
        assert np.isin(copies, RESTS).all()


class TestRefusals:
    @pytest.mark.parametrize("most_ms", [-1.0, -inf, nan])
    def test_a_limit_that_is_no_time(self, most_ms: float) -> None:
        with pytest.raises(InputError, match=r"stage 'a': alike_to_ms: must be a time >= 0"):
            Station(name="a", work=Constant(1.0), alike_to_ms=most_ms)
