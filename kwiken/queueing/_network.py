"""Requests through a DAG of stages with queues.

The DAG is feed-forward: what happens at a stage depends on when its parents end, never on its children. So
each stage is simulated by itself, all requests at once, given its parents' ends. That is exact and quick, and
holds one stage's calls in memory at a time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken._dag import parents_first, start_times
from kwiken._errors import InputError
from kwiken._plan import Ladder
from kwiken._profile import Floats
from kwiken._simulate import ladder
from kwiken.queueing._flow import Settled, StageCalls, flow, settled_stage
from kwiken.queueing._machine import MAX_PROCESSORS, PIECE_MS, Machine, between
from kwiken.queueing._race import Calls, Served
from kwiken.queueing._serve import serve
from kwiken.queueing._station import Station

Ints = NDArray[np.int64]
TURNS: Final = 3  # from an idle machine: what is settled does not change much by the clock
MOST_TURNS: Final = 8
CLOSE: Final = 0.03  # relative change of the mean latency between two turns that may be chance
CLOSE_COPIES: Final = 0.003  # and of copies, in those of a call
MORE_TURNS: Final = 2  # from a machine that did nearly the same before


@dataclass(frozen=True)
class Primaries:
    """The primary calls of a stage, by request, where they are given and not drawn.

    Attributes:
        work_ms: (n, width); NaN for no call.
        rest_ms: (n, width), NaN in the same places.
    """

    work_ms: Floats
    rest_ms: Floats


@dataclass(frozen=True)
class StageQueues:
    """What became of one stage; n requests, m calls.

    Attributes:
        latency_ms: (n,) until its last answer; 0 where the request made no call.
        slowest_ms: (n,) of its slowest call. That is the same but where a process in front sends one call
            after the other.
        call_ms: (m,) of each call, as its caller sees it.
        wait_ms: (m,) time of each call's first attempt in its replica beyond its own work; NaN where that
            attempt was taken out.
        calls: (n,) primary calls of the request.
        copies: (n,) copies sent for it.
        denied: copies that the account could not pay when they were due.
        utilisation: (replicas,) share of the time until the last arrival that each one's workers were busy;
            empty for a stage without replicas.
        extra_load: work that copies caused, as a share of the work of first attempts.
    """

    latency_ms: Floats
    slowest_ms: Floats
    call_ms: Floats
    wait_ms: Floats
    calls: Ints
    copies: Ints
    denied: int
    utilisation: Floats
    extra_load: float

    @property
    def fraction(self) -> float:
        """Copies per call."""
        return float(self.copies.sum() / max(1, self.calls.sum()))


@dataclass(frozen=True)
class QueueSimulation:
    """What became of requests.

    Attributes:
        latency_ms: (n,) of whole requests.
        stages: by name.
        settled: False where processors are shared and what copies do to them, and they to copies, did not
            come to rest.
    """

    latency_ms: Floats
    stages: Mapping[str, StageQueues]
    settled: bool = True

    @property
    def ladder(self) -> Ladder:
        """Percentiles of the latency of whole requests."""
        return ladder(self.latency_ms)


def poisson_arrivals(rate_per_s: float, requests: int, rng: np.random.Generator) -> Floats:
    """(requests,): moments of a Poisson process, milliseconds, ascending.

    Args:
        rate_per_s: requests a second; above 0.
        requests: how many.
        rng: of the draws.

    Raises:
        InputError: for a rate that is not a finite number above 0.
    """
    if not 0 < rate_per_s < math.inf:
        raise InputError(f"must be a finite number above 0, not {rate_per_s}", where="rate")
    return np.cumsum(rng.standard_exponential(requests)) * (1e3 / rate_per_s)


def simulate_queues(
    stations: Sequence[Station],
    arrivals_ms: Floats,
    *,
    rng: np.random.Generator,
    given: Mapping[str, Primaries] | None = None,
    warm_up: int = 0,
    processors: int | None = None,
) -> QueueSimulation:
    """Send requests through a DAG of stages with queues.

    Args:
        stations: the stages, each with its replicas.
        arrivals_ms: (n,) when requests come, ascending from 0 or later.
        rng: of all draws. Every stage has streams of its own, in the order given, for calls, replicas,
            copies, pauses and background: simulations that differ in a policy share all the rest.
        given: by stage: its primary calls; drawn from the station's laws where absent.
        warm_up: requests at the beginning that load the queues but do not count; in call latencies, waits,
            extra load and utilisation they do.
        processors: of the one machine that all replicas share; None where nobody waits for a processor.

    Raises:
        InputError: for a bad DAG, arrivals that go back, primaries of another shape than the requests, or
            stations that cannot share processors: with pauses, or of the discipline `sharing`.
        OverloadError: when copies are more than a stage can serve.
    """
    arrivals = _checked(arrivals_ms, warm_up)
    if processors is None:
        return _pass(stations, arrivals, rng.spawn(len(stations)), given or {}, warm_up, None)[0]
    return simulate_machine(
        stations, arrivals, rng=rng, given=given, warm_up=warm_up, machine=idle_machine(stations, processors)
    )[0]


def idle_machine(
    stations: Sequence[Station],
    processors: int,
    others_ms: Floats | None = None,
    piece_ms: float = PIECE_MS,
    beside_ms: float = 0.0,
) -> Machine:
    """A machine for these stations, on which nothing has happened.

    Args:
        stations: that are to share it.
        processors: how many it has.
        others_ms: (j,) moments at which a piece of other work comes; None for none.
        piece_ms: how much each is.
        beside_ms: other work that comes with a request.

    Raises:
        InputError: for what no machine has, or a station that cannot be on it.
    """
    if isinstance(processors, bool) or not 1 <= processors <= MAX_PROCESSORS:
        raise InputError(
            f"must be a whole number from 1 to {MAX_PROCESSORS}, not {processors}", where="processors"
        )
    for station in stations:
        if station.pauses is not None or station.discipline != "fifo":
            raise InputError(
                f"stage {station.name!r}: must serve in order and not pause where processors are shared",
                where="processors",
            )
    return Machine(processors, np.empty(0) if others_ms is None else others_ms, piece_ms, beside_ms)


def simulate_machine(
    stations: Sequence[Station],
    arrivals_ms: Floats,
    *,
    rng: np.random.Generator,
    given: Mapping[str, Primaries] | None,
    warm_up: int,
    machine: Machine,
    turns: int = TURNS,
) -> tuple[QueueSimulation, Machine]:
    """The same on a machine of which something is known already.

    Args:
        stations: as `simulate_queues` takes them, like all that is not named here.
        arrivals_ms: likewise.
        rng: likewise.
        given: likewise.
        warm_up: likewise.
        machine: what was learned of it from the same arrivals; an idle one at first.
        turns: how often to go through the stages at least; more often while that changes much.

    Returns:
        What became of the requests in the last turn, and what is known of the machine then.
    """
    streams = rng.spawn(len(stations))
    last: QueueSimulation | None = None
    for turn in range(max(turns, MOST_TURNS)):  # the same draws in each
        found, settled = _pass(stations, arrivals_ms, copy.deepcopy(streams), given or {}, warm_up, machine)
        after = flow(machine, arrivals_ms, settled)
        # where copies make all so slow that none go any more, it would swing from one to the other
        machine = replace(after, clock=between(machine.clock, after.clock)) if turn >= turns else after
        if last is not None and turn + 1 >= turns and _close(found, last):
            return found, machine
        last = found
    return replace(found, settled=False), machine


def _close(one: QueueSimulation, other: QueueSimulation) -> bool:
    """Whether two turns tell the same but for what chance may do."""
    means = [float(each.latency_ms.mean()) for each in (one, other)]
    copies = [
        sum(int(stage.copies.sum()) for stage in each.stages.values())
        / max(1, sum(int(stage.calls.sum()) for stage in each.stages.values()))
        for each in (one, other)
    ]
    return abs(means[0] - means[1]) <= CLOSE * max(means) and abs(copies[0] - copies[1]) <= CLOSE_COPIES


def _checked(arrivals_ms: Floats, warm_up: int) -> Floats:
    arrivals = np.asarray(arrivals_ms, dtype=float)
    sound = arrivals.ndim == 1 and np.isfinite(arrivals).all() and (np.diff(arrivals, prepend=0.0) >= 0).all()
    if not sound:
        raise InputError("must be finite moments, ascending from 0 or later", where="arrivals_ms")
    if not 0 <= warm_up < len(arrivals):
        raise InputError(
            f"must leave at least one of {len(arrivals)} requests, not {warm_up}", where="warm_up"
        )
    return arrivals


def _pass(
    stations: Sequence[Station],
    arrivals: Floats,
    streams: Sequence[np.random.Generator],
    given: Mapping[str, Primaries],
    warm_up: int,
    machine: Machine | None,
) -> tuple[QueueSimulation, list[Settled]]:
    """Go through all stages once; what became of the requests, and what is settled for a machine."""
    ends: dict[str, Floats] = {}
    stages: dict[str, StageQueues] = {}
    settled: list[Settled] = []
    places: dict[str, int] = {}
    for i in parents_first(stations):
        station = stations[i]
        parents = start_times(station, ends)
        start = arrivals if parents is None else parents
        stage, calls, served = _stage(station, start, given.get(station.name), streams[i], machine)
        ends[station.name] = start + stage.latency_ms
        stages[station.name] = _without_first(stage, warm_up)
        if machine is not None and served.attempts is not None:
            places[station.name] = len(settled)
            settled.append(
                settled_stage(station, [places[name] for name in station.after], calls, served.attempts)
            )
    inner = {parent for station in stations for parent in station.after}
    last = np.maximum.reduce([end for name, end in ends.items() if name not in inner])
    return QueueSimulation(np.asarray(last - arrivals)[warm_up:], stages), settled


def _stage(
    station: Station,
    start: Floats,
    primaries: Primaries | None,
    rng: np.random.Generator,
    machine: Machine | None,
) -> tuple[StageQueues, StageCalls, Served]:
    """Simulate one stage, given when each request comes to it."""
    drawing, serving = rng.spawn(2)
    work, rest = _work_and_rest(station, len(start), primaries, drawing)
    there = np.flatnonzero(~np.isnan(work).ravel())
    starting, sending, answering = _delays(station, there, machine)
    sent = start[there // work.shape[1]] + starting + sending
    order = np.argsort(sent, kind="stable")
    there, sent, answering = there[order], sent[order], answering[order]
    begun = np.maximum.accumulate(sent - sending[order])  # the front does one thing at a time
    sending = sent - begun
    owner = there // work.shape[1]
    starting = begun - start[owner]
    passing = _passing(station, there, sent, begun, answering, machine)
    in_front = () if machine is None else (sending, answering, passing)
    calls = Calls(sent, work.ravel()[there], rest.ravel()[there], np.full(len(there), -1), *in_front)
    served = serve(station, calls, serving, machine.clock if machine is not None else None)
    took = served.latency_ms + sending
    latency, slowest = np.zeros(len(start)), np.zeros(len(start))
    np.maximum.at(latency, owner, starting + took)
    np.maximum.at(slowest, owner, took)
    stage = StageQueues(
        latency_ms=latency,
        slowest_ms=slowest,
        call_ms=took,
        wait_ms=served.wait_ms,
        calls=np.bincount(owner, minlength=len(start)),
        copies=_by_request(served.copies, owner, len(start)),
        denied=served.denied,
        utilisation=_utilisation(station, calls, served),
        extra_load=served.extra_ms / max(float(calls.work.sum()), math.ulp(0.0)),
    )
    return stage, StageCalls(len(start), work.size, there, sending, answering, passing), served


def _delays(station: Station, there: Ints, machine: Machine | None) -> list[Floats]:
    """(m,) each: what the process in front takes to come to a call, to send it, and to read its answer."""
    none = np.zeros(len(there))
    if machine is None:
        return [none] * 3
    every = (machine.starting, machine.sending, machine.answering)
    known = [delays.get(station.name) for delays in every]
    return [none if delays is None else delays[there] for delays in known]


def _passing(
    station: Station,
    there: Ints,
    sent: Floats,
    begun: Floats,
    answering: Floats,
    machine: Machine | None,
) -> Floats:
    """(m,): what the process in front takes for a copy: to come to it, to send it and to read its answer."""
    if machine is None or station.reissue is None or not station.front_ms:
        return np.zeros(len(begun))
    due = np.maximum(sent, begun + station.reissue.after_ms)
    line = machine.line.wait_at(due, machine.clock) + station.front_ms / 2
    known = machine.copying.get(station.name)  # a copy that went is in the line itself
    took = line if known is None else np.where(np.isnan(known[there]), line, known[there])
    return np.asarray(took + answering)


def _work_and_rest(
    station: Station, requests: int, primaries: Primaries | None, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """(n, width) twice."""
    if primaries is None:
        shape = (requests, station.fanout)
        size = requests * station.fanout
        return station.work.draw(rng, size).reshape(shape), station.rest.draw(rng, size).reshape(shape)
    work, rest = primaries.work_ms, primaries.rest_ms
    if work.ndim != 2 or len(work) != requests or rest.shape != work.shape:  # noqa: PLR2004 - a matrix
        raise InputError(
            f"stage {station.name!r}: must be matrices of {requests} rows, not of shapes {work.shape} and "
            f"{rest.shape}",
            where="given",
        )
    if (np.isnan(work) != np.isnan(rest)).any() or (work < 0).any() or (rest < 0).any():
        raise InputError(f"stage {station.name!r}: times must be >= 0, or NaN for no call", where="given")
    return work, rest


def _by_request(values: Ints, owner: Ints, requests: int) -> Ints:
    return np.asarray(np.bincount(owner, values, minlength=requests), dtype=np.int64)


def _utilisation(station: Station, calls: Calls, served: Served) -> Floats:
    span_ms = float(calls.arrival[-1]) if calls.count else 0.0
    if station.replicas is None or not span_ms:
        return np.zeros(station.replicas or 0)
    return served.worked_ms / (span_ms * station.workers)


def _without_first(stage: StageQueues, warm_up: int) -> StageQueues:
    return replace(
        stage,
        latency_ms=stage.latency_ms[warm_up:],
        slowest_ms=stage.slowest_ms[warm_up:],
        calls=stage.calls[warm_up:],
        copies=stage.copies[warm_up:],
    )
