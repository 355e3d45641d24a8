"""Generator of recordings whose services do not stand still: moving faults, doubled load, slow stages.

Written down before any plan was judged by it, and not tuned since. A recording lasts two hours.

**Services** are shaped like those in published traces of large microservice clusters (Luo et al., SoCC
2021): wide and shallow call trees, few large ones, latencies with heavy tails, calls that only some
requests make.

- 4 to 30 stages, log-uniform. A stage comes after one earlier stage (7 of 10) or two, of the first third.
- 6 of 10 stages are in every request; each of the others is in a share of the requests from 0.2 to 0.9.
- A call takes a log-normal time: medians are log-normal around 5 ms with sigma 1, sigmas uniform from 0.3
  to 0.9. A request's size multiplies all of its calls: log-normal, sigma 0.2.
- A stage has 3 to 8 replicas, and a call goes to any of them.
- One call in 500 stalls: an exponential time with a mean of 20 medians of its stage is added.

**Load**: Poisson arrivals, 3 a second in the mean, 30% more and less in one slow wave. Replicas are busy
for 30% of the time at that rate; latencies grow as in a queue with one server, by 1 / (1 - utilisation).

**Faults** begin at random, one every 24 minutes in the mean (`moving`: every 8), and last an exponential
time of three minutes in the mean, at least 20 s. A fault hits one replica of one stage: three times in
ten the stage of the fault before it, else any. A third each:

- `delay` adds 10 to 40 medians to every call of the replica;
- `busy` makes the replica's calls 4 to 12 times as long;
- `stall` stops 3 calls in 10 of the replica for an exponential time of 40 medians in the mean.

**Scenarios**:

- `moving`: faults that start, end and move between stages, at three times the usual rate;
- `doubling`: the load doubles half-way, within a minute, and stays;
- `slow`: at some time in the middle half of the recording one stage becomes 2 to 4 times as slow for
  good, on all replicas, with one and a half times the sigma.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.model.latency import end_to_end
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile

SCENARIOS = ("moving", "doubling", "slow")
DURATION_S = 7200.0
RATE_PER_S = 3.0
WAVE = 0.3  # of the load, up and down
UTILISATION = 0.3
STALL_SHARE, STALL_MEDIANS = 0.002, 20.0
FAULT_GAP_S = {"moving": 480.0, "doubling": 1440.0, "slow": 1440.0}
FAULT_MEAN_S, FAULT_MIN_S = 180.0, 20.0
RETURN_SHARE = 0.3  # of the faults: at the stage of the fault before
RAMP_S = 60.0  # in which the load doubles


@dataclass(frozen=True)
class Fault:
    """Fault of one replica.

    Attributes:
        stage: index of the stage.
        replica: index of the replica.
        start_s: start, seconds from the start of the recording.
        end_s: end, seconds.
        kind: `delay`, `busy` or `stall`.
        size: medians added, or factor; 0 for `stall`.
    """

    stage: int
    replica: int
    start_s: float
    end_s: float
    kind: str
    size: float


def drifting_profile(scenario: str, seed: int) -> Profile:
    """Recording of a random service in a scenario.

    Args:
        scenario: one of `SCENARIOS`.
        seed: seed of the service, its load and its faults, 0 or more.
    """
    rng = np.random.default_rng([seed, SCENARIOS.index(scenario)])
    count = round(float(np.exp(rng.uniform(np.log(4), np.log(30)))))
    parents = [_parents(i, rng) for i in range(count)]
    started = _arrivals(rng, doubling=scenario == "doubling")
    size = rng.lognormal(0.0, 0.2, len(started))
    waiting = (1 - UTILISATION) / (1 - UTILISATION * _load(started, doubling=scenario == "doubling"))
    replicas = rng.integers(3, 9, count)
    faults = list(_faults(replicas, FAULT_GAP_S[scenario], rng))
    slow = int(rng.integers(count)) if scenario == "slow" else None
    since_s, factor = rng.uniform(0.25, 0.75) * DURATION_S, rng.uniform(2, 4)
    stages = []
    for i in range(count):
        median, sigma = rng.lognormal(np.log(5.0), 1.0), rng.uniform(0.3, 0.9)
        turned = (started >= since_s) if i == slow else np.zeros(len(started), dtype=np.bool_)
        noise = rng.standard_normal(len(started)) * sigma * np.where(turned, 1.5, 1.0)
        calls = median * np.exp(noise) * size * waiting * np.where(turned, factor, 1.0)
        stalls = rng.random(len(started)) < STALL_SHARE
        calls = calls + stalls * rng.exponential(STALL_MEDIANS * median, len(started))
        asked = rng.integers(replicas[i], size=len(started))
        for fault in faults:
            if fault.stage == i:
                calls = _faulty(calls, fault, (started, asked), median, rng)
        visit = 1.0 if rng.random() < 0.6 or not parents[i] else rng.uniform(0.2, 0.9)
        calls[rng.random(len(started)) >= visit] = np.nan
        stages.append(
            StageProfile(
                name=f"s{i}",
                after=tuple(f"s{parent}" for parent in parents[i]),
                match=SpanMatch(service="drifting", operation=f"s{i}"),
                calls_ms=calls[:, None],
                censored=np.zeros((len(started), 1), dtype=np.bool_),
            )
        )
    return Profile(
        service=f"{scenario}-{seed}",
        stages=tuple(stages),
        latency_ms=end_to_end(stages, {stage.name: stage.latency_ms for stage in stages}),
        started_s=started,
    )


def _parents(i: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Indices of a stage's parents among the first third of those before it."""
    if not i:
        return ()
    number = 1 if rng.random() < 0.7 else 2
    return tuple(sorted({int(parent) for parent in rng.integers(-(-i // 3), size=number)}))


def _load(at_s: Floats, *, doubling: bool) -> Floats:
    """(n,): load at each time, as a ratio to `RATE_PER_S`."""
    wave = 1 + WAVE * np.sin(2 * np.pi * at_s / DURATION_S)
    twice = np.clip((at_s - DURATION_S / 2) / RAMP_S, 0, 1) if doubling else 0.0
    return np.asarray(wave * (1 + twice))


def _arrivals(rng: np.random.Generator, *, doubling: bool) -> Floats:
    """(n,): start times, seconds, of a Poisson process thinned to the load."""
    most = RATE_PER_S * (1 + WAVE) * (2 if doubling else 1)
    times = np.sort(rng.uniform(0, DURATION_S, rng.poisson(most * DURATION_S)))
    kept = rng.random(len(times)) < RATE_PER_S * _load(times, doubling=doubling) / most
    return np.asarray(times[kept])


def _faults(replicas: Ints, gap_s: float, rng: np.random.Generator) -> Iterator[Fault]:
    at, stage = rng.exponential(gap_s), int(rng.integers(len(replicas)))
    while at < DURATION_S:
        if rng.random() >= RETURN_SHARE:
            stage = int(rng.integers(len(replicas)))
        kind = str(rng.choice(["delay", "busy", "stall"]))
        size = {"delay": rng.uniform(10, 40), "busy": rng.uniform(4, 12), "stall": 0.0}[kind]
        length = max(FAULT_MIN_S, float(rng.exponential(FAULT_MEAN_S)))
        yield Fault(stage, int(rng.integers(replicas[stage])), at, at + length, kind, size)
        at += rng.exponential(gap_s)


def _faulty(
    calls: Floats, fault: Fault, where: tuple[Floats, Ints], median: float, rng: np.random.Generator
) -> Floats:
    """(n,): latencies of a stage's calls, ms, with a fault; `where` has their times and replicas."""
    started, asked = where
    hit: Bools = (started >= fault.start_s) & (started < fault.end_s) & (asked == fault.replica)
    if fault.kind == "delay":
        return np.asarray(calls + hit * fault.size * median)
    if fault.kind == "busy":
        return np.asarray(calls * np.where(hit, fault.size, 1.0))
    stopped = hit & (rng.random(len(calls)) < 0.3)
    return np.asarray(calls + stopped * rng.exponential(40 * median, len(calls)))
