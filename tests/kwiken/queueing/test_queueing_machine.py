"""Replicas that share a machine's processors: against formulas, a slow simulator, and a truth that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken import Budgets, InputError, PlanStudy, Profile, Reissue, make_plan, study_plan
from kwiken.queueing import (
    Background,
    Constant,
    Exponential,
    LoadModel,
    LogNormal,
    Pauses,
    Primaries,
    Station,
    _network,
    _trial,
    load_model,
    mmk_mean_wait_ms,
    plan_hurts_above,
    poisson_arrivals,
    settle,
    simulate_load,
    simulate_queues,
)
from kwiken.queueing._guard import highest_load
from kwiken.queueing._machine import SharedClock
from kwiken.queueing._model import Shared
from kwiken.queueing._network import idle_machine, simulate_machine
from kwiken.queueing._trial import Trial
from tests.support.queue_profiles import queue_profile

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
CREATED = "2026-01-01T00:00:00Z"
OWN = "chain:request (own time)"
CHANGES = st.lists(st.tuples(st.floats(0.001, 50), st.floats(0.01, 1)), max_size=20)


def clock_of(changes: Sequence[tuple[float, float]]) -> SharedClock:
    """Steps until the next change, and the paces from then on."""
    moments = np.cumsum([0.0, *[step for step, _ in changes]])
    return SharedClock(moments, np.array([1.0, *[pace for _, pace in changes]]))


class TestClock:
    @given(changes=CHANGES, moment=st.floats(0, 300))
    def test_own_time_is_the_integral_of_the_pace(
        self, changes: list[tuple[float, float]], moment: float
    ) -> None:
        own, now, pace = 0.0, 0.0, 1.0
        for step, next_pace in changes:
            own += max(0.0, min(step, moment - now)) * pace
            now, pace = now + step, next_pace
        own += max(0.0, moment - now) * pace
        assert clock_of(changes).worked(moment) == pytest.approx(own, abs=1e-9)

    @given(changes=CHANGES, moments=st.lists(st.floats(0, 300), min_size=1, max_size=5))
    def test_there_and_back(self, changes: list[tuple[float, float]], moments: list[float]) -> None:
        clock = clock_of(changes)
        own = clock.worked_at(np.array(moments))
        np.testing.assert_allclose(own, [clock.worked(m) for m in moments])
        np.testing.assert_allclose(clock.moments_at(own), moments, atol=1e-9)
        np.testing.assert_allclose([clock.moment(o) for o in own], moments, atol=1e-9)


class TestFormulas:
    @pytest.mark.parametrize("work", [Exponential(10.0), LogNormal(10.0, 1.5), Constant(10.0)])
    def test_hardly_a_queue_but_the_processors(self, work: Exponential | LogNormal | Constant) -> None:
        """Many replicas, two processors: M/G/k processor sharing, whose mean is that of M/M/k for any law."""
        station = Station(name="a", work=work, replicas=400, dispatch="least")
        arrivals = poisson_arrivals(140.0, 100_000, np.random.default_rng(1))
        found = simulate_queues([station], arrivals, rng=np.random.default_rng(1), processors=2)
        assert found.latency_ms.mean() == pytest.approx(10.0 + mmk_mean_wait_ms(2, 0.7, 10.0), rel=0.02)

    def test_as_many_processors_as_replicas_slow_nobody(self) -> None:
        stations = [Station(name=name, work=Exponential(5.0), replicas=2) for name in "ab"]
        arrivals = poisson_arrivals(200.0, 5_000, np.random.default_rng(2))
        free, shared = (
            simulate_queues(stations, arrivals, rng=np.random.default_rng(2), processors=count)
            for count in (None, 4)
        )
        np.testing.assert_allclose(shared.latency_ms, free.latency_ms)


class SlowMachine:
    """Moment by moment: one replica a stage, in order; all that are busy share the processors."""

    def __init__(
        self, stations: Sequence[Station], arrivals: Floats, work: dict[str, Floats], processors: int
    ) -> None:
        self.stations, self.arrivals, self.processors = stations, arrivals, processors
        self.ends = {station.name: np.full(len(arrivals), inf) for station in stations}
        self.came: set[tuple[str, int]] = set()
        self.lines: dict[str, list[int]] = {station.name: [] for station in stations}
        self.left = {name: times.copy() for name, times in work.items()}
        self.now = 0.0

    def run(self) -> Floats:
        while (step := self.until_next()) < inf:
            self.work(step)
            self.come()
        return np.asarray(np.maximum.reduce(list(self.ends.values())) - self.arrivals)

    def pace(self) -> float:
        return min(1.0, self.processors / max(1, sum(bool(line) for line in self.lines.values())))

    def until_next(self) -> float:
        ends = [self.left[name][line[0]] / self.pace() for name, line in self.lines.items() if line]
        coming = self.arrivals[self.arrivals > self.now] - self.now
        return min([*ends, *coming[:1]], default=inf)

    def work(self, step: float) -> None:
        done = step * self.pace()
        self.now += step
        for name, line in self.lines.items():
            if not line:
                continue
            self.left[name][line[0]] -= done
            if self.left[name][line[0]] <= 1e-12:
                self.ends[name][line.pop(0)] = self.now

    def come(self) -> None:
        for station in self.stations:
            ready = [self.ends[parent] for parent in station.after] or [self.arrivals]
            for request in np.flatnonzero(np.maximum.reduce(ready) <= self.now + 1e-12).tolist():
                if (station.name, request) not in self.came:
                    self.came.add((station.name, request))
                    self.lines[station.name].append(request)


class TestAgainstASlowOne:
    @pytest.mark.parametrize("processors", [1, 2])
    @pytest.mark.parametrize("seed", range(4))
    def test_turns_lead_to_the_same(self, processors: int, seed: int) -> None:
        """Stages behind and beside each other; call by call the same as moment by moment."""
        rng = np.random.default_rng([seed, processors])
        laws = {name: LogNormal(float(rng.uniform(2, 6)), 1.0) for name in "abcd"}
        after = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
        stations = [Station(name=name, after=after[name], work=law) for name, law in laws.items()]
        demand = sum(law.mean_ms for law in laws.values())
        arrivals = poisson_arrivals(600.0 * processors / demand, 60, rng)
        machine = idle_machine(stations, processors)
        found, _ = simulate_machine(
            stations,
            arrivals,
            rng=np.random.default_rng(seed),
            given=None,
            warm_up=0,
            machine=machine,
            turns=12,
        )
        streams = np.random.default_rng(seed).spawn(4)
        work = {name: law.draw(streams[i].spawn(2)[0], 60) for i, (name, law) in enumerate(laws.items())}
        np.testing.assert_allclose(
            found.latency_ms, SlowMachine(stations, arrivals, work, processors).run(), rtol=1e-6
        )


MACHINE = (
    Station(name="fetch", work=LogNormal(8.0, 0.5), rest=LogNormal(6.0, 1.0), replicas=6, dispatch="aged"),
    Station(name="rank", after=("fetch",), work=LogNormal(8.0, 1.0), replicas=6, dispatch="aged"),
)


def profile_of(rate_per_s: float, seed: int, requests: int = 8_000) -> Profile:
    """Two processors, of which each request needs 16 ms."""
    return queue_profile(rate_per_s, stations=MACHINE, requests=requests, seed=seed, processors=2)


class TestLearned:
    def test_a_profile_foretells_its_machine_at_another_load(self) -> None:
        """Learned at 40% of the processors, foretold at 64%; without them it is foretold far too short.

        The tail there is some 10% too short: rests are put right rank for rank, so calls that met many keep
        a little of it as theirs.
        """
        learned = profile_of(50.0, 1)
        truth = np.percentile(profile_of(80.0, 2, requests=30_000).latency_ms, (50, 90, 99))
        shared = load_model(learned, rate_per_s=50.0, processors=2)
        said = np.percentile(simulate_load(shared, factor=1.6, requests=6_000).before_ms, (50, 90, 99))
        np.testing.assert_allclose(said[:2], truth[:2], rtol=0.1)
        assert said[2] == pytest.approx(truth[2], rel=0.15)
        alone = simulate_load(load_model(learned, rate_per_s=50.0), factor=1.6, requests=6_000).before_ms
        assert np.percentile(alone, 90) < 0.8 * truth[1]

    def test_at_its_own_load_it_has_its_own_percentiles(self) -> None:
        learned = profile_of(70.0, 3)
        model = load_model(learned, rate_per_s=70.0, processors=2)
        said = simulate_load(model, requests=6_000).before_ms
        wanted = np.percentile(learned.latency_ms, (50, 90, 99))
        np.testing.assert_allclose(np.percentile(said, (50, 90, 99)), wanted, rtol=0.08)

    def test_own_time_tells_of_the_front(self) -> None:
        """What the gateway burns and own time does not show is spread over the calls."""
        learned = with_own_time(profile_of(50.0, 4), own_ms=1.0, busy_ms=3.0)
        model = load_model(learned, rate_per_s=50.0, processors=4, processor_use=0.3)
        fronts = {name: stage.station.front_ms for name, stage in model.stages.items()}
        assert fronts == pytest.approx({OWN: 1.0, "fetch": 1.0, "rank": 1.0})
        assert model.shared is not None
        assert model.shared.work_ms == pytest.approx(16.0 + 3.0)
        assert model.shared.beside_ms == pytest.approx(0.3 * 4 * 1e3 / 50.0 - (16.0 + 3.0))
        assert model.shared.others == 0.0

    def test_a_use_that_is_less_than_the_calls_own_is_said(self) -> None:
        model = load_model(profile_of(50.0, 5), rate_per_s=50.0, processors=2, processor_use=0.2)
        assert any("more than the given use of the processors: 40% of 2" in note for note in model.notes)
        assert model.shared is not None
        assert model.shared.beside_ms == 0.0

    def test_copies_cost_all_stages(self) -> None:
        """Where processors are scarce, copies of one stage slow another that has none."""
        model = load_model(profile_of(90.0, 6), rate_per_s=90.0, processors=2)
        copied = replace(model.stages["fetch"].station, reissue=Reissue(after_ms=1.0))
        rng = np.random.default_rng(7)
        arrivals = poisson_arrivals(90.0, 4_000, rng)
        means = [
            simulate_queues(
                [station, model.stages["rank"].station],
                arrivals,
                rng=np.random.default_rng(8),
                processors=2,
            )
            .stages["rank"]
            .call_ms.mean()
            for station in (model.stages["fetch"].station, copied)
        ]
        assert means[1] > 1.1 * means[0]


def with_own_time(profile: Profile, *, own_ms: float, busy_ms: float) -> Profile:
    first = profile.stages[0]
    own = replace(
        first,
        name=OWN,
        calls_ms=np.full((profile.requests, 1), own_ms),
        busy_ms=busy_ms,
        busy_variation=None,
        replicas=None,
        reissuable=False,
    )
    stages = (own, replace(first, after=(OWN,)), *profile.stages[1:])
    return replace(profile, stages=stages, latency_ms=profile.latency_ms + own_ms)


class TestShared:
    def test_others_are_busy_whatever_the_load(self) -> None:
        shared = Shared(processors=4, work_ms=20.0, others=1.0)
        assert [shared.busy_at(rate) for rate in (0.0, 50.0, 100.0)] == pytest.approx([0.25, 0.5, 0.75])

    @given(
        processors=st.integers(1, 64),
        work_ms=st.floats(0.1, 1e3),
        beside_ms=st.floats(0, 100),
        share=st.floats(0, 0.9),
        rate=st.floats(0, 1e4),
    )
    def test_the_rate_of_a_use_is_that_which_has_it(
        self, processors: int, work_ms: float, beside_ms: float, share: float, rate: float
    ) -> None:
        shared = Shared(processors, work_ms, beside_ms, share * processors)
        assert shared.rate_at(shared.busy_at(rate)) == pytest.approx(rate, abs=1e-6)
        assert shared.rate_at(share / 2) == 0.0  # others alone use more


class TestRefusals:
    @pytest.mark.parametrize("count", [0, -1, 5000, True])
    def test_processors_that_no_machine_has(self, count: int) -> None:
        with pytest.raises(InputError, match=r"processors: must be a whole number from 1 to 4096"):
            simulate_queues(MACHINE, np.arange(3.0), rng=np.random.default_rng(0), processors=count)

    @pytest.mark.parametrize(
        "station",
        [
            Station(name="a", work=Constant(1.0), pauses=Pauses(share=0.1, length=Constant(5.0))),
            Station(name="a", work=Constant(1.0), discipline="sharing"),
        ],
    )
    def test_stations_that_cannot_share(self, station: Station) -> None:
        with pytest.raises(InputError, match=r"stage 'a': must serve in order and not pause"):
            simulate_queues([station], np.arange(3.0), rng=np.random.default_rng(0), processors=2)

    def test_front_work_that_is_none(self) -> None:
        with pytest.raises(InputError, match=r"stage 'a': front_ms"):
            Station(name="a", work=Constant(1.0), front_ms=-1.0)

    def test_more_than_they_can_do(self) -> None:
        with pytest.raises(InputError, match=r"processors: 1 processors? would be busy 160%"):
            load_model(profile_of(100.0, 9), rate_per_s=100.0, processors=1)
        model = load_model(profile_of(50.0, 9), rate_per_s=50.0, processors=2)
        with pytest.raises(InputError, match="more than they can do"):
            simulate_load(model, factor=2.6, requests=100)

    @pytest.mark.parametrize("use", [0.0, 1.0, -0.5, float("nan")])
    def test_a_use_that_is_no_share(self, use: float) -> None:
        with pytest.raises(InputError, match="processor_use: must be a share above 0 and below 1"):
            load_model(profile_of(50.0, 9), rate_per_s=50.0, processors=2, processor_use=use)

    def test_a_use_of_nothing(self) -> None:
        with pytest.raises(InputError, match="processor_use: says nothing without"):
            load_model(profile_of(50.0, 9), rate_per_s=50.0, processor_use=0.5)
        with pytest.raises(InputError, match="idle_use: says nothing without"):
            load_model(profile_of(50.0, 9), rate_per_s=50.0, idle_use=0.1)

    @pytest.mark.parametrize("idle", [-0.1, 1.0, float("nan")])
    def test_an_idle_use_that_is_no_share(self, idle: float) -> None:
        with pytest.raises(InputError, match="idle_use: must be a share from 0 to below 1"):
            load_model(profile_of(50.0, 9), rate_per_s=50.0, processors=2, idle_use=idle)

    def test_an_idle_use_that_is_all_use(self) -> None:
        with pytest.raises(InputError, match=r"idle_use: .* below processor_use \(0\.5\), not 0\.5"):
            load_model(profile_of(50.0, 9), rate_per_s=50.0, processors=2, processor_use=0.5, idle_use=0.5)


def test_background_counts_as_work() -> None:
    """Other work on replicas needs processors too."""
    quiet = Station(name="a", work=Constant(5.0), replicas=8, dispatch="random")
    loaded = replace(quiet, background=Background(utilisation=0.15, work=Constant(5.0)))
    arrivals = poisson_arrivals(50.0, 5_000, np.random.default_rng(1))
    means = [
        simulate_queues([station], arrivals, rng=np.random.default_rng(2), processors=2).latency_ms.mean()
        for station in (quiet, loaded)
    ]
    assert means[1] > 1.2 * means[0]


class TestBounds:
    def test_however_many_stages_a_request_skips(self) -> None:
        """A thousand stages in a row without a call."""
        stations = [Station(name="0", work=Constant(1.0))]
        stations += [Station(name=str(i), after=(str(i - 1),), work=Constant(1.0)) for i in range(1, 1000)]
        none = np.full((2, 1), np.nan)
        given_calls = {station.name: Primaries(none, none) for station in stations[1:]}
        found = simulate_queues(
            stations,
            np.array([1.0, 50.0]),
            rng=np.random.default_rng(0),
            given=given_calls,
            processors=1,
        )
        np.testing.assert_allclose(found.latency_ms, 1.0)

    def test_a_stage_that_nobody_calls_holds_up_nobody(self) -> None:
        stations = [
            Station(name="a", work=Constant(1.0)),
            Station(name="b", after=("a",), work=Constant(1.0)),
        ]
        stations.append(Station(name="c", after=("b",), work=Constant(2.0)))
        none = np.full((2, 1), np.nan)
        found = simulate_queues(
            stations,
            np.array([1.0, 50.0]),
            rng=np.random.default_rng(0),
            given={"b": Primaries(none, none)},
            processors=1,
        )
        np.testing.assert_allclose(found.latency_ms, 3.0)

    def test_other_work_comes_in_so_many_pieces_at_most(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_trial, "MOST_PIECES", 1000)
        model = load_model(
            profile_of(50.0, 1), rate_per_s=50.0, processors=8, processor_use=0.8, idle_use=0.7
        )
        assert model.shared is not None
        trial = Trial(model, 1.0, 500, 0)
        _, machine = trial.run({})
        assert machine is not None
        assert len(machine.others) < 1200
        others = len(machine.others) * machine.piece_ms
        assert others == pytest.approx(550 / 50.0 * 1e3 * model.shared.others, rel=0.1)

    def test_other_work_comes_with_the_requests_but_for_what_comes_without_any(self) -> None:
        model = load_model(
            profile_of(50.0, 1), rate_per_s=50.0, processors=8, processor_use=0.4, idle_use=0.1
        )
        shared = model.shared
        assert shared is not None
        assert shared.others == pytest.approx(0.1 * 8)
        assert shared.beside_ms == pytest.approx(0.3 * 8 * 1e3 / 50.0 - 16.0)
        for factor, use in ((0.0, 0.1), (0.5, 0.25), (1.0, 0.4), (2.0, 0.7)):
            assert shared.busy_at(50.0 * factor) == pytest.approx(use)
            assert shared.rate_at(use) == pytest.approx(50.0 * factor)

    def test_what_comes_with_requests_slows_them(self) -> None:
        model = load_model(profile_of(50.0, 1), rate_per_s=50.0, processors=2, processor_use=0.6)
        shared = model.shared
        assert shared is not None
        assert shared.beside_ms == pytest.approx(8.0)
        found, machine = Trial(model, 1.0, 2_000, 0).run({})
        assert machine is not None
        assert machine.beside_ms == shared.beside_ms
        alone, _ = Trial(replace(model, shared=replace(shared, beside_ms=0.0)), 1.0, 2_000, 0).run({})
        assert found.latency_ms.mean() > 1.05 * alone.latency_ms.mean()

    def test_idle_work_is_the_same_at_every_load(self) -> None:
        """Half and twice the requests a second: as much of it a second."""
        model = load_model(
            profile_of(50.0, 1), rate_per_s=50.0, processors=8, processor_use=0.4, idle_use=0.3
        )
        assert model.shared is not None
        assert model.shared.others == pytest.approx(0.3 * 8)
        for factor in (0.5, 2.0):
            trial = Trial(model, factor, 300, 0)
            _, machine = trial.run({})
            assert machine is not None
            span_ms = float(trial._arrivals[-1])
            assert span_ms == pytest.approx(330 * 1e3 / (50.0 * factor), rel=0.2)
            busy = len(machine.others) * machine.piece_ms / span_ms
            assert busy == pytest.approx(model.shared.others, rel=0.03)
            # all the time
            assert np.median(machine.others) == pytest.approx(span_ms / 2, rel=0.05)
            assert machine.others.max() == pytest.approx(span_ms, rel=0.01)

    def test_a_load_is_the_highest_that_processors_can_do(self) -> None:
        model = load_model(profile_of(50.0, 1), rate_per_s=50.0, processors=2)
        assert highest_load(model) == pytest.approx(0.95 / 0.4, rel=0.01)

    def test_what_does_not_come_to_rest_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = load_model(profile_of(50.0, 1), rate_per_s=50.0, processors=2)
        assert not any("chase each other" in note for note in simulate_load(model, requests=500).notes)
        monkeypatch.setattr(_network, "CLOSE", -1.0)
        assert any("chase each other" in note for note in simulate_load(model, requests=500).notes)


@pytest.fixture(scope="module")
def scarce() -> LoadModel:
    """Stages that are hardly busy, on processors that are 68% busy."""
    idle = tuple(replace(station, replicas=40) for station in MACHINE)
    profile = queue_profile(85.0, stations=idle, requests=6_000, seed=3, processors=2)
    return load_model(profile, rate_per_s=85.0, processors=2)


class TestScarceProcessors:
    """Stages that are hardly busy, on a machine that is."""

    def test_a_plan_does_no_harm(self, scarce: LoadModel) -> None:
        """Copies of a third of the work on processors that are 68% busy: those that are too many are refused."""

        def study_of(profile: Profile) -> PlanStudy:
            return study_plan(profile, budgets=Budgets(reissue=0.4), created=CREATED)

        found = settle(scarce, study_of, requests=2_000)
        plan = found.study.plan
        assert plan.expected is not None
        assert plan.expected.after.p99_ms <= plan.expected.before.p99_ms * 1.01
        assert any("the processors that all share 68%" in note for note in found.study.notes)
        if found.refused:
            assert any("would take processors from all others" in note for note in found.study.notes)
            assert not any("replicas are so busy" in note for note in found.study.notes)

    def test_the_whole_plan_is_searched_up_to_what_processors_can_do(self, scarce: LoadModel) -> None:
        """Stages alone could take thirty times the load. Copies may hurt nowhere: late calls earn none."""
        plan = make_plan(scarce.profile, budgets=Budgets(reissue=0.4), created=CREATED)
        above = plan_hurts_above(scarce, plan)
        assert above is None or above <= 0.95 / 0.68 + 0.01
