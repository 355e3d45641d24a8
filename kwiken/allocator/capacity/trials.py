"""Trials of stage sizes: each stage simulated by itself, on the same requests for every size.

A request keeps its place at every stage: the recorded row that it was drawn from, its arrival, and its draws
of work. So latencies of stages can be put together along the DAG in any combination of sizes, which costs no
simulation. What is left out is that a slower parent shifts the arrivals at its children; the final answer is
therefore simulated as a whole (`kwiken.allocator.capacity.verification`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from kwiken.allocator.capacity.pauses import pauses_of, recognised, without_pauses
from kwiken.allocator.capacity.recorded_requests import RecordedHalves, recorded_arrivals
from kwiken.allocator.capacity.supply import StageSize, Supply
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.jobs import Job, Spread
from kwiken.model.latency import finish_times, start_times
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.rounding import rounded
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.curve import MIN_CALLS_FOR_CURVE, Curve, reissue_curve
from kwiken.tail.queueing.load.simulate import reissuing
from kwiken.tail.queueing.load.stage_model import LoadModel
from kwiken.tail.queueing.simulator.calls import SimulatedCalls
from kwiken.tail.queueing.simulator.network import Primaries
from kwiken.tail.queueing.simulator.race import UnstableStageError
from kwiken.tail.queueing.simulator.service_times import ServiceTimes
from kwiken.tail.queueing.simulator.stage import serve
from kwiken.tail.queueing.simulator.station import Station

# Shares of a stage's calls that may get a copy; position 0 is none.
LEVELS: Final = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2)
FIXED_LEVEL: Final = -1  # level of a policy that was given and not made from a curve
MAX_BUSY: Final = 0.9  # share of the replicas' time in use that a size may have, copies included
MAX_TRIAL_CALLS: Final = 50_000  # calls of all stages in one pass over them
MIN_TRIAL_REQUESTS, MAX_TRIAL_REQUESTS = 3000, 10_000
MAX_CALLS_FOR_CURVE: Final = 20_000  # calls behind a policy: more do not move a time-out
WARM_UP: Final = 0.1  # extra requests as a share of the counted ones: they fill the queues and do not count


@dataclass(frozen=True)
class AtSpeed:
    """Distribution of work on a node of another speed.

    Attributes:
        times: distribution at speed 1.
        speed: factor of the recorded replicas' speed, above 0.
    """

    times: ServiceTimes
    speed: float

    @property
    def mean_ms(self) -> float:
        """Its mean, milliseconds."""
        return self.times.mean_ms / self.speed

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws, milliseconds.

        Args:
            size: number of draws, 0 or more.
        """
        return self.times.draw(rng, size) / self.speed


@dataclass(frozen=True)
class Trial:
    """Outcome of one size of one stage.

    Attributes:
        latency_ms: (n,) latency of the stage in each request, warm-up included; 0 where it was skipped.
        policy: reissue policy; None for no copies.
        copies: number of copies per call.
        extra_load: work of copies, as a share of the work of calls.
        utilisation: share of the replicas' time in use, copies included; 0 for a stage that is not sized.
        calls_ms: (n, width) time until each call's answer reaches the caller, without copies; None for sizes
            with copies.
    """

    latency_ms: Floats
    policy: Reissue | None
    copies: float
    extra_load: float
    utilisation: float
    calls_ms: Floats | None = None


@dataclass(frozen=True)
class _StageCalls:
    """Primary calls of one stage in order of arrival; m calls of n requests.

    Attributes:
        arrival: (m,) arrival times, milliseconds.
        work: (m,) work at speed 1, milliseconds.
        rest: (m,) rest, milliseconds.
        place: (m,) flat position of each call in the matrix of calls.
        called: (n, width) whether there was a call.
        lag_ms: (n, width) time that answers lie at the caller, milliseconds; None for none.
    """

    arrival: Floats
    work: Floats
    rest: Floats
    place: Ints
    called: Bools
    lag_ms: Floats | None

    def at(self, speed: float) -> SimulatedCalls:
        """The calls at replicas of a speed.

        Args:
            speed: speed as a factor of the recorded replicas'.
        """
        return SimulatedCalls(self.arrival, self.work / speed, self.rest, np.full(len(self.work), -1))

    def latency_of_requests(self, calls_ms: Floats) -> Floats:
        """(n,): latency of the stage in each request, milliseconds; 0 where it was skipped.

        Args:
            calls_ms: (n, width) time until each call's answer reaches the caller; NaN for no call.
        """
        ends = calls_ms if self.lag_ms is None else calls_ms + self.lag_ms
        return np.asarray(np.fmax.reduce(ends, axis=1, initial=0.0))


@dataclass
class _StageState:
    """Trials of one stage so far."""

    plain: Station
    other_busy: float  # share of the replicas' time that background work takes
    reissuable: bool
    calls: _StageCalls
    busy_cores: float
    seed: tuple[int, int]
    trials: dict[StageSize, Trial | None] = field(default_factory=dict)
    policies: dict[tuple[int, int], tuple[Reissue | None, ...]] = field(default_factory=dict)


class StageTrials:
    """Trials of all stages of a service at one rate; simulated when first asked for, then kept.

    Args:
        rate_per_s: requests a second to size for.
        seed: seed of all draws.
        terms: terms of the ledger that pays for copies.
        requests: number of requests that count; None for as many as a bound on calls allows.
        halves: recorded requests to search on, and those to check on; None for blocks of time in turn.

    Attributes:
        names: names of the stages, parents before children.
        model: load model without the pauses that are simulated.
        pauses: pauses of replicas that are simulated, by stage.
    """

    def __init__(
        self,
        model: LoadModel,
        rate_per_s: float,
        supply: Supply,
        *,
        seed: int,
        terms: LedgerTerms = LedgerTerms(),  # noqa: B008 - frozen
        requests: int | None = None,
        halves: RecordedHalves | None = None,
    ) -> None:
        model = recognised(model)
        self.pauses = pauses_of(model)
        self.model = model = without_pauses(model, self.pauses, seed=seed)
        self.supply, self.rate_per_s = supply, rate_per_s
        self.names = tuple(model.stages)
        self.halves = halves or RecordedHalves.of(model.profile)
        self._terms = terms
        self._fixed: dict[int, Reissue] = {}
        enough = int(MAX_TRIAL_CALLS / model.calls_per_request)
        self.requests = requests or min(MAX_TRIAL_REQUESTS, max(MIN_TRIAL_REQUESTS, enough))
        self.warm_up = int(WARM_UP * self.requests)
        factor, count = rate_per_s / model.rate_per_s, self.requests + self.warm_up
        arriving, choosing, *working = np.random.default_rng([seed, 0]).spawn(2 + len(model.stages))
        arrivals = recorded_arrivals(model.profile, rate_per_s, count, arriving)
        rows = model.rows(factor, count, choosing, self.halves.searched)
        starts = _recorded_starts(model)
        self._stages = []
        for place, (stage, rng) in enumerate(zip(model.profile.stages, working, strict=True)):
            found = model.stages[stage.name]
            primaries = found.primaries(rows, rng, model.stalls.get(stage.name), factor)
            calls = _stage_calls(arrivals + starts[stage.name][rows], primaries)
            busy = rate_per_s / 1e3 * found.calls_per_request * found.station.work.mean_ms
            state = _StageState(
                found.station,
                found.busy_at(0.0),
                stage.reissuable and not stage.own_time,
                calls,
                busy,
                (seed, place),
            )
            self._stages.append(state)

    def give(self, fixed: Mapping[int, Reissue]) -> None:
        """Set the policies of `FIXED_LEVEL`; none may have been tried yet."""
        assert not self._fixed
        self._fixed = dict(fixed)

    def sized(self, stage: int) -> bool:
        """Whether a stage's replicas are sized: load acts on it."""
        return self._stages[stage].plain.replicas is not None

    def reissuable(self, stage: int) -> bool:
        """Whether a stage's calls may get copies."""
        return self._stages[stage].reissuable

    def speed(self, stage: int, size: StageSize) -> float:
        """Speed of a size's replicas as a factor of the recorded ones; 1 for a stage that is not sized."""
        return float(self.supply.speed[stage, size.node_class]) if self.sized(stage) else 1.0

    def busy_cores(self, stage: int, node_class: int) -> float:
        """Cores that a stage's own calls keep busy on average, without copies."""
        if not self.sized(stage):
            return 0.0
        return self._stages[stage].busy_cores / float(self.supply.speed[stage, node_class])

    def fewest(self, stage: int, node_class: int) -> int:
        """Least number of replicas on a class that can serve the calls within `MAX_BUSY`; 0 if not sized."""
        if not self.sized(stage):
            return 0
        other = self._stages[stage].other_busy
        return max(1, int(np.ceil(self.busy_cores(stage, node_class) / max(MAX_BUSY - other, 1e-3) - 1e-9)))

    def policy(self, stage: int, size: StageSize) -> Reissue | None:
        """Reissue policy of a size: given, or that of the curve of its latencies; None for no copies."""
        single = self.sized(stage) and size.replicas == 1  # a copy goes to another replica
        if not size.level or single or not self.reissuable(stage):
            return None
        if size.level == FIXED_LEVEL:
            return self._fixed.get(stage)
        key = size.replicas, size.node_class
        state = self._stages[stage]
        if key not in state.policies:
            state.policies[key] = _policies(self.trial(stage, replace(size, level=0)))
        return state.policies[key][size.level]

    def given_level(self, stage: int) -> int:
        """Level whose share of copies is nearest to that of the given policy; 0 where none is given."""
        policy = self._fixed.get(stage)
        if policy is None:
            return 0
        return 1 + int(np.argmin(np.abs(np.array(LEVELS[1:]) - policy.fraction)))

    def trial(self, stage: int, size: StageSize) -> Trial | None:
        """Outcome of a size; None where its replicas cannot serve the calls and copies within `MAX_BUSY`."""
        known = self._stages[stage].trials
        if size not in known:
            known[size] = self._run(stage, size)
        return known[size]

    def station(self, stage: int, size: StageSize) -> Station:
        """The stage's station at a size, with its copies and without its parents."""
        plain = self._stages[stage].plain
        station = replace(plain, after=())
        if plain.replicas is not None:
            work = AtSpeed(plain.work, float(self.supply.speed[stage, size.node_class]))
            found = self.pauses.get(self.names[stage])
            pauses = None if found is None else found.pauses
            station = replace(station, replicas=size.replicas, work=work, pauses=pauses)
        policy = self.policy(stage, size)
        return station if policy is None else reissuing(station, policy, terms=self._terms)

    def prepare(self, wanted: Iterable[tuple[int, StageSize]], spread: Spread) -> None:
        """Try sizes that will be asked for, as jobs of an engine; what is known already is not tried again.

        Args:
            wanted: stages with a size each.
            spread: function that runs jobs; each size of a stage is one.
        """
        sizes = dict.fromkeys(wanted)
        # A policy is made from the trial of the same replicas without copies, so these come first.
        for some in ([(stage, replace(size, level=0)) for stage, size in sizes], list(sizes)):
            new = [
                (stage, size)
                for stage, size in dict.fromkeys(some)
                if size not in self._stages[stage].trials and self._simulated(stage, size)
            ]
            jobs: list[Job] = [(_serve, self._request(stage, size)) for stage, size in new]
            for (stage, size), served in zip(new, spread(jobs), strict=True):
                self._stages[stage].trials[size] = self._trial(stage, size, served)

    def _simulated(self, stage: int, size: StageSize) -> bool:
        """Whether a size has a trial of its own: enough replicas, and copies if it is one with copies."""
        enough = size.replicas >= self.fewest(stage, size.node_class)
        return enough and (not size.level or self.policy(stage, size) is not None)

    def _request(self, stage: int, size: StageSize) -> tuple[_StageCalls, Station, float, int, int]:
        """Arguments of `_serve` for a size that is simulated."""
        state = self._stages[stage]
        return state.calls, self.station(stage, size), self.speed(stage, size), *state.seed

    def _run(self, stage: int, size: StageSize) -> Trial | None:
        if self._simulated(stage, size):
            return self._trial(stage, size, _serve(*self._request(stage, size)))
        enough = size.replicas >= self.fewest(stage, size.node_class)
        return self.trial(stage, replace(size, level=0)) if enough else None

    def _trial(self, stage: int, size: StageSize, served: _Served | None) -> Trial | None:
        """Outcome of a size from the times of its calls."""
        if served is None:
            return None
        state, busy = self._stages[stage], 0.0
        if self.sized(stage):
            busy = self.busy_cores(stage, size.node_class) * (1 + served.extra_load) / size.replicas
            busy += state.other_busy
            if busy > MAX_BUSY + 1e-9:
                return None
        matrix = np.full(state.calls.called.shape, np.nan)
        matrix.ravel()[state.calls.place] = served.latency_ms
        return Trial(
            latency_ms=state.calls.latency_of_requests(matrix),
            policy=self.policy(stage, size),
            copies=served.copies,
            extra_load=served.extra_load,
            utilisation=busy,
            calls_ms=matrix if self.policy(stage, size) is None else None,
        )


@dataclass(frozen=True)
class _Served:
    """A stage's calls at one size: (m,) latencies, milliseconds; copies per call; work of copies."""

    latency_ms: Floats
    copies: float
    extra_load: float


def _serve(calls: _StageCalls, station: Station, speed: float, seed: int, place: int) -> _Served | None:
    """Simulate a stage's calls at one size; None where its replicas cannot serve them.

    Args:
        calls: calls of the stage, the same for every size.
        speed: speed of the replicas as a factor of the recorded ones'.
        place: number of the stage, which has draws of its own.
    """
    primaries = calls.at(speed)
    try:
        served = serve(station, primaries, np.random.default_rng([seed, place, 1]))
    except UnstableStageError:
        return None
    own = max(float(primaries.work.sum()), 1e-12)
    copies = float(served.copies.sum() / max(1, primaries.count))
    return _Served(served.latency_ms, copies, served.extra_work_ms / own)


def _recorded_starts(model: LoadModel) -> Mapping[str, Floats]:
    """By stage: (n,) time from a request's arrival to the stage's start in the profile, milliseconds."""
    stages = model.profile.stages
    ends = finish_times(stages, {stage.name: stage.latency_ms for stage in stages})
    found = {}
    for stage in stages:
        start = start_times(stage, ends)
        found[stage.name] = np.zeros(model.profile.requests) if start is None else start
    return found


def _stage_calls(start: Floats, primaries: Primaries) -> _StageCalls:
    work, rest = primaries.work_ms, primaries.rest_ms
    called = ~np.isnan(work)
    place = np.flatnonzero(called.ravel())
    arrival = start[place // work.shape[1]]
    order = np.argsort(arrival, kind="stable")
    place = place[order]
    return _StageCalls(
        arrival[order],
        work.ravel()[place],
        rest.ravel()[place],
        place,
        called,
        primaries.lag_ms,
    )


def _policies(alone: Trial | None) -> tuple[Reissue | None, ...]:
    """Policy of each level from the variance-response curve of a stage's latencies without copies."""
    none = (None,) * len(LEVELS)
    if alone is None or alone.calls_ms is None:
        return none
    rows = alone.calls_ms[~np.isnan(alone.calls_ms).all(axis=1)]
    rows = rows[: max(1, MAX_CALLS_FOR_CURVE // rows.shape[1])]
    if int((~np.isnan(rows)).sum()) < MIN_CALLS_FOR_CURVE:
        return none
    # The curve only places the time-outs, as if copies were independent. What copies do, their correlation
    # with slow calls included, is simulated.
    curve: Curve = reissue_curve(rows)
    found = [curve.policy(level) if level else None for level in LEVELS]
    return tuple(None if one is None else rounded(one) for one in found)
