"""Work that hangs together within a request, on shared processors: the truth is known here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken import Profile, SpanMatch, StageProfile, part_of
from kwiken._profile import Floats
from kwiken.queueing import (
    Constant,
    LoadModel,
    LogNormal,
    Primaries,
    Station,
    load_model,
    poisson_arrivals,
    simulate_load,
    simulate_queues,
)

RATE = 50.0  # on two processors: 45% busy
NAMES = ("parse", "fetch", "rank")
STATIONS = tuple(
    Station(name=name, after=NAMES[i - 1 : i], work=LogNormal(6.0, 0.7), replicas=20, dispatch="aged")
    for i, name in enumerate(NAMES)
)


def simulated(
    rate_per_s: float, requests: int, seed: int, *, rest_ms: float = 0.0, processors: int = 2
) -> tuple[Floats, Profile]:
    """Requests that are heavy everywhere or nowhere: their latencies, and what traces would say."""
    rng = np.random.default_rng(seed)
    heavy = LogNormal(1.0, 0.6).draw(rng, requests)
    work = {name: heavy * LogNormal(6.0, 0.3).draw(rng, requests) for name in NAMES}
    rest = LogNormal(rest_ms, 0.8) if rest_ms else Constant(0.0)
    given = {
        name: Primaries(times[:, None], rest.draw(rng, requests)[:, None]) for name, times in work.items()
    }
    arrivals = poisson_arrivals(rate_per_s, requests, rng)
    found = simulate_queues(STATIONS, arrivals, rng=rng, given=given, processors=processors)
    stages = tuple(
        StageProfile(
            name=station.name,
            after=station.after,
            match=SpanMatch(service="chain", operation=station.name),
            calls_ms=found.stages[station.name].latency_ms[:, None],
            censored=np.zeros((requests, 1), np.bool_),
            busy_ms=float(work[station.name].mean()),
            busy_variation=float(work[station.name].std() / work[station.name].mean()),
            worked_ms=work[station.name][:, None],
            replicas=station.replicas,
        )
        for station in STATIONS
    )
    profile = Profile(
        service="chain", stages=stages, latency_ms=found.latency_ms, started_s=1.7e9 + arrivals / 1e3
    )
    return found.latency_ms, profile


@pytest.fixture(scope="module")
def learned() -> Profile:
    return simulated(RATE, 8_000, 1)[1]


def without(profile: Profile) -> Profile:
    """The same where only mean and variation of the work are known."""
    return replace(profile, stages=tuple(replace(stage, worked_ms=None) for stage in profile.stages))


def modelled(profile: Profile, processors: int = 2) -> LoadModel:
    return load_model(profile, rate_per_s=RATE, processors=processors)


def test_what_is_heavy_everywhere_is_foretold_at_another_load(learned: Profile) -> None:
    truth = np.percentile(simulated(1.5 * RATE, 40_000, 2)[0], (50, 99))
    own, drawn = (
        np.percentile(simulate_load(modelled(profile), factor=1.5, requests=12_000).before_ms, (50, 99))
        for profile in (learned, without(learned))
    )
    off, off_where_drawn = own / truth - 1, drawn / truth - 1
    assert np.abs(off).max() < 0.06
    assert off_where_drawn[1] < -0.1


@pytest.mark.parametrize(("rest_ms", "processors"), [(6.0, 64), (18.0, 2)])
def test_a_heavy_call_is_not_given_a_long_rest_too(rest_ms: float, processors: int) -> None:
    """Rests hang together with nothing here, so at its own load a request is as long as it was measured."""
    seen_ms, profile = simulated(RATE, 8_000, 3, rest_ms=rest_ms, processors=processors)
    said = simulate_load(modelled(profile, processors), requests=16_000).before_ms
    wanted = np.percentile(seen_ms, (50, 90, 99))
    np.testing.assert_allclose(np.percentile(said, (50, 90, 99)), wanted, rtol=0.06)


def test_what_was_not_called_counts_for_nothing(learned: Profile) -> None:
    """A call without a latency is not simulated, whatever an attempt of it worked."""
    first = learned.stages[0]
    assert first.worked_ms is not None
    calls, worked = first.calls_ms.copy(), first.worked_ms.copy()
    calls[:800], worked[:800] = np.nan, 1e4
    stages = (replace(first, calls_ms=calls, worked_ms=worked), *learned.stages[1:])
    model = modelled(replace(learned, stages=stages)).stages[first.name]
    assert model.work_ms is not None
    assert np.isnan(model.work_ms[:800]).all()
    assert np.nanmean(model.work_ms) == pytest.approx(first.busy_ms)


def test_each_call_has_its_own_work(learned: Profile) -> None:
    model = modelled(learned)
    rows = np.array([5, 3, 3, 17])
    for stage in learned.stages:
        given = model.stages[stage.name].primaries(rows, np.random.default_rng(0))
        assert stage.worked_ms is not None
        np.testing.assert_allclose(given.work_ms, stage.worked_ms[rows])


def test_who_has_processors_to_themselves_draw_it(learned: Profile) -> None:
    """Rests there were learned beside waits of work that is drawn."""
    model = load_model(learned, rate_per_s=RATE)
    assert all(stage.work_ms is None for stage in model.stages.values())


def test_work_that_is_not_known_is_drawn(learned: Profile) -> None:
    first = learned.stages[0]
    assert first.worked_ms is not None
    assert first.busy_ms is not None
    worked = first.worked_ms.copy()
    worked[::2] = np.nan
    stages = (replace(first, worked_ms=worked), *learned.stages[1:])
    model = modelled(replace(learned, stages=stages))
    rows = np.arange(len(worked))
    given = model.stages[first.name].primaries(rows, np.random.default_rng(0)).work_ms
    scale = first.busy_ms / np.nanmean(worked)
    np.testing.assert_allclose(given[1::2], worked[1::2] * scale)
    drawn = given[::2]
    assert not np.isnan(drawn).any()
    assert drawn.mean() == pytest.approx(first.busy_ms, rel=0.05)
    assert len(np.unique(drawn)) == len(drawn)


def test_all_together_it_is_as_much_as_was_measured(learned: Profile) -> None:
    """The busy time of all attempts counts, also where calls of which more is known did less."""
    first = learned.stages[0]
    assert first.worked_ms is not None
    stages = (replace(first, worked_ms=first.worked_ms / 3), *learned.stages[1:])
    model = modelled(replace(learned, stages=stages)).stages[first.name]
    assert model.work_ms is not None
    assert model.work_ms.mean() == pytest.approx(first.busy_ms)


def test_a_stage_of_whose_calls_nothing_is_known_draws_their_work(learned: Profile) -> None:
    first = learned.stages[0]
    assert first.worked_ms is not None
    for worked_ms in (first.worked_ms * 0, first.worked_ms * np.nan, first.worked_ms * 0 + 1e-310):
        stages = (replace(first, worked_ms=worked_ms), *learned.stages[1:])
        assert modelled(replace(learned, stages=stages)).stages[first.name].work_ms is None


def test_a_part_of_a_profile_has_its_own(learned: Profile) -> None:
    part = part_of(learned, np.arange(10, 30))
    for mine, whole in zip(part.stages, learned.stages, strict=True):
        assert mine.worked_ms is not None
        assert whole.worked_ms is not None
        np.testing.assert_array_equal(mine.worked_ms, whole.worked_ms[10:30])
