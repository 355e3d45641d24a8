"""Generated services with heavy tails and pauses, for checking what a sizing promises.

Written down before the services of the comparison were run, and not tuned since; changes that trials led to
before are in `docs/decisions/sizing.md`. It shares no code with the queueing
simulator that `kwiken size` promises from, and differs from the load model in each of these points:

- **Stages**: three. A stage comes after one earlier stage (7 of 10) or two.
- **Work**: medians are log-normal around 5 ms with sigma 0.4. A call's work is a gamma time of shape 3, and
  in 2 of 100 calls a Pareto time of shape 2.5 from twice the mean on. The size of a request multiplies all of
  its work: log-normal, sigma 0.2. (The load model draws log-normal work, independent between stages.)
- **Arrivals**: bursts. The rate is 1.15 or 0.85 times the mean, for exponential times of 2 s each. (The load
  model and the check take a Poisson process.)
- **Pauses**: each replica stops for Pareto times of shape 1.5, from 40 ms on, at most 1 s. The mean gap
  between pauses is log-normal by stage, around 20 s with sigma 0.8. Work in progress waits too.
- **Choice of replica**: the one with fewer calls of two that are drawn. Each serves first in, first out.
- **Copies** go to another replica, of two that are drawn. The first answer wins; nothing is cancelled. The
  account is that of the plan, in code of its own: calls that are answered before the time-out earn 1.5 times
  the planned copies, and pay for at most half a copy each within 10 s.

Recordings are made at four replicas a stage, at a rate that keeps the busiest stage's replicas busy for 30%
of the time. Calls are simulated one after the other, because each choice depends on the queues before.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue

STAGES, RECORDED_REPLICAS, RECORDED_BUSY = 3, 4, 0.3
ONE_PARENT = 0.7  # share of the stages after one earlier stage
MEDIAN_MS, MEDIAN_SIGMA = 5.0, 0.4
GAMMA_SHAPE, LONG_SHARE, LONG_SHAPE, LONG_FROM = 3.0, 0.02, 2.5, 2.0
SIZE_SIGMA = 0.2
BURST, BURST_MS = (1.15, 0.85), 2000.0  # factors of the mean rate, and mean time of each
PAUSE_FROM_MS, PAUSE_SHAPE, PAUSE_MAX_MS = 40.0, 1.5, 1000.0
PAUSE_GAP_MS, PAUSE_GAP_SIGMA = 20_000.0, 0.8
EARNED, FIRST_COPIES = 1.5, 16.0  # copies paid for, as a multiple of the plan's, and at the start
PEAK, PEAK_MS = 0.5, 10_000.0  # copies within a time, as a share of its prompt calls


@dataclass(frozen=True)
class WorldStage:
    """One stage of a generated service.

    Attributes:
        after: positions of the stages that it waits for.
        mean_ms: mean of its gamma work, milliseconds.
        gap_ms: mean time between two pauses of a replica, milliseconds.
    """

    after: tuple[int, ...]
    mean_ms: float
    gap_ms: float


@dataclass(frozen=True)
class WorldSize:
    """Replicas of a stage, 1 or more, and the policy of its copies; None for no copies."""

    replicas: int
    policy: Reissue | None = None


@dataclass(frozen=True)
class WorldRun:
    """What some requests met.

    Attributes:
        arrival_ms: (n,) arrival of each request, milliseconds.
        latency_ms: (n,) latency of each request, milliseconds.
        calls_ms: by stage: (n,) latency of each call, milliseconds.
        work_ms: by stage: (n,) work of each call, milliseconds.
        asked: by stage: (n,) replica that took each call.
    """

    arrival_ms: Floats
    latency_ms: Floats
    calls_ms: Sequence[Floats]
    work_ms: Sequence[Floats]
    asked: Sequence[Ints]


@dataclass(frozen=True)
class PausedWorld:
    """A generated service.

    Attributes:
        rate_per_s: mean number of requests a second.
    """

    stages: Sequence[WorldStage]
    rate_per_s: float

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> PausedWorld:
        """Draw a service."""
        stages = []
        for place in range(STAGES):
            parents = min(place, 1 if rng.random() < ONE_PARENT else 2)
            stages.append(
                WorldStage(
                    tuple(sorted(rng.choice(place, parents, replace=False).tolist())) if parents else (),
                    MEDIAN_MS * float(np.exp(MEDIAN_SIGMA * rng.standard_normal())),
                    PAUSE_GAP_MS * float(np.exp(PAUSE_GAP_SIGMA * rng.standard_normal())),
                )
            )
        busiest_ms = max(stage.mean_ms for stage in stages)
        return cls(stages, RECORDED_BUSY * RECORDED_REPLICAS / busiest_ms * 1e3)

    def run(self, sizes: Sequence[WorldSize], requests: int, rng: np.random.Generator) -> WorldRun:
        """Serve requests with some sizes.

        Args:
            sizes: size of each stage.
            requests: number of requests, 1 or more.
        """
        arrival = _bursty_arrivals(self.rate_per_s, requests, rng)
        large = np.exp(SIZE_SIGMA * rng.standard_normal(requests))
        ends: list[Floats] = []
        calls, works, asked = [], [], []
        for stage, size in zip(self.stages, sizes, strict=True):
            start = np.max([ends[parent] for parent in stage.after], axis=0) if stage.after else arrival
            work = large * _work(stage.mean_ms, requests, rng)
            again = large * _work(stage.mean_ms, requests, rng)
            end, taken = _served(stage, size, (start, work, again), rng)
            ends.append(end)
            calls.append(end - start)
            works.append(work)
            asked.append(taken)
        return WorldRun(arrival, np.max(ends, axis=0) - arrival, calls, works, asked)

    def recording(self, requests: int, rng: np.random.Generator) -> Profile:
        """Profile as traces of the service would give it, at `RECORDED_REPLICAS` a stage without copies.

        Args:
            requests: number of requests, 1 or more.
        """
        run = self.run([WorldSize(RECORDED_REPLICAS)] * len(self.stages), requests, rng)
        stages = tuple(
            StageProfile(
                name=f"s{place}",
                after=tuple(f"s{parent}" for parent in stage.after),
                match=SpanMatch(service="world", operation=f"s{place}"),
                calls_ms=run.calls_ms[place][:, None],
                censored=np.zeros((requests, 1), np.bool_),
                busy_ms=float(run.work_ms[place].mean()),
                busy_variation=float(run.work_ms[place].std() / run.work_ms[place].mean()),
                replicas=RECORDED_REPLICAS,
                asked=run.asked[place][:, None],
                replica_names=tuple(f"s{place}-{number}" for number in range(RECORDED_REPLICAS)),
            )
            for place, stage in enumerate(self.stages)
        )
        return Profile(
            service="world",
            stages=stages,
            latency_ms=run.latency_ms,
            started_s=1.7e9 + run.arrival_ms / 1e3,
        )


def _bursty_arrivals(rate_per_s: float, requests: int, rng: np.random.Generator) -> Floats:
    """(n,) ascending arrivals, milliseconds: a Poisson process whose rate changes in turn."""
    counted = np.cumsum(rng.standard_exponential(requests)) / (rate_per_s / 1e3)  # time at the mean rate
    turns = 4 + int(2 * counted[-1] / BURST_MS)
    lasts = BURST_MS * rng.standard_exponential(turns)
    counts = lasts * np.resize(BURST, turns)  # in the same measure as `counted`
    while counts.sum() <= counted[-1]:
        lasts, counts = np.append(lasts, BURST_MS), np.append(counts, BURST_MS)
    return np.interp(
        counted, np.concatenate(([0.0], np.cumsum(counts))), np.concatenate(([0.0], np.cumsum(lasts)))
    )


def _work(mean_ms: float, count: int, rng: np.random.Generator) -> Floats:
    """(count,) work of calls of middle-sized requests, milliseconds."""
    usual = mean_ms / GAMMA_SHAPE * rng.standard_gamma(GAMMA_SHAPE, count)
    long = LONG_FROM * mean_ms * (1.0 + rng.pareto(LONG_SHAPE, count))
    return np.where(rng.random(count) < LONG_SHARE, long, usual)


class _Replica:
    """One replica: when it pauses, when it is free, and which of its calls are not answered yet."""

    def __init__(self, gap_ms: float, until_ms: float, rng: np.random.Generator) -> None:
        count = 8 + int(2 * until_ms / gap_ms)
        lasts = np.minimum(PAUSE_MAX_MS, PAUSE_FROM_MS * (1.0 + rng.pareto(PAUSE_SHAPE, count)))
        begins = np.cumsum(gap_ms * rng.standard_exponential(count)) + np.concatenate(
            ([0.0], np.cumsum(lasts)[:-1])
        )
        self.begins: list[float] = begins.tolist()
        self.ends: list[float] = (begins + lasts).tolist()
        self.free_ms = 0.0
        self.open: deque[float] = deque()

    def waiting(self, now_ms: float) -> int:
        """Number of calls that are not answered yet."""
        while self.open and self.open[0] <= now_ms:
            self.open.popleft()
        return len(self.open)

    def serve(self, now_ms: float, work_ms: float) -> float:
        """Time at which a call that comes now is answered, milliseconds."""
        at = max(now_ms, self.free_ms)
        place = bisect_right(self.begins, at) - 1
        if place >= 0 and at < self.ends[place]:
            at = self.ends[place]
        place += 1
        while place < len(self.begins) and at + work_ms > self.begins[place]:
            work_ms -= self.begins[place] - at
            at = self.ends[place]
            place += 1
        self.free_ms = at + work_ms
        self.open.append(self.free_ms)
        return self.free_ms


class _Account:
    """Account that pays for copies of a stage."""

    def __init__(self, fraction: float) -> None:
        self.share = EARNED * fraction / max(1.0 - fraction, 0.5)
        self.left = FIRST_COPIES
        self.prompt: deque[float] = deque()
        self.copied: deque[float] = deque()

    def earn(self, now_ms: float) -> None:
        """Note a call that is answered before its time-out."""
        self.left += self.share
        self.prompt.append(now_ms)

    def pays(self, now_ms: float) -> bool:
        """Pay for a copy if the account allows it."""
        for moments in (self.prompt, self.copied):
            while moments and moments[0] <= now_ms - PEAK_MS:
                moments.popleft()
        if self.left < 1.0 or len(self.copied) + 1 > PEAK * len(self.prompt):
            return False
        self.left -= 1.0
        self.copied.append(now_ms)
        return True


def _served(
    stage: WorldStage, size: WorldSize, calls: tuple[Floats, Floats, Floats], rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """(n,) time at which each call's first answer comes, and (n,) the replica that took it.

    Args:
        calls: start, work, and work of a copy, of each call.
    """
    start, work, again = calls
    until_ms = float(start.max()) + 60_000.0
    replicas = [_Replica(stage.gap_ms, until_ms, rng) for _ in range(size.replicas)]
    policy = size.policy if size.replicas > 1 else None
    chosen = rng.random((len(start), 4)).tolist()
    allowed = (rng.random(len(start)) < (0.0 if policy is None else policy.probability)).tolist()
    after_ms = 0.0 if policy is None else policy.after_ms
    account = _Account(0.0 if policy is None else policy.fraction)
    end, asked = np.zeros(len(start)), np.zeros(len(start), dtype=np.int64)
    late: list[tuple[float, int]] = []

    def copy() -> None:
        now_ms, call = heapq.heappop(late)
        if not account.pays(now_ms):
            return
        others = [one for one in range(size.replicas) if one != asked[call]]
        taken = _fewer(replicas, others, chosen[call][2:], now_ms)
        end[call] = min(end[call], replicas[taken].serve(now_ms, float(again[call])))

    for call in np.argsort(start, kind="stable").tolist():
        now_ms = float(start[call])
        while late and late[0][0] <= now_ms:
            copy()
        taken = _fewer(replicas, range(size.replicas), chosen[call][:2], now_ms)
        asked[call] = taken
        end[call] = replicas[taken].serve(now_ms, float(work[call]))
        if end[call] <= now_ms + after_ms:
            account.earn(now_ms)
        elif allowed[call]:
            heapq.heappush(late, (now_ms + after_ms, call))
    while late:
        copy()
    return end, asked


def _fewer(replicas: Sequence[_Replica], among: Sequence[int], drawn: Sequence[float], now_ms: float) -> int:
    """The replica with fewer open calls of two that are drawn, which may be the same."""
    one, other = (among[int(share * len(among))] for share in drawn)
    return one if replicas[one].waiting(now_ms) <= replicas[other].waiting(now_ms) else other


def sizes_in_world(replicas: Sequence[int], policies: Mapping[int, Reissue]) -> list[WorldSize]:
    """Sizes of the stages.

    Args:
        replicas: replicas of each stage.
        policies: policy of its copies by position of a stage.
    """
    return [WorldSize(count, policies.get(place)) for place, count in enumerate(replicas)]
