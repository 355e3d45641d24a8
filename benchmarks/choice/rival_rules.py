"""Rivals of the runtime's rule of replica choice, behind the same seam.

Each is as strong as its source allows: all see the age of calls without an answer, by which stalled replicas
are told, except where the source has another way.
"""

# ruff: noqa: ARG002 - all rules are asked alike, and some need less

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from math import ceil, exp2, log

from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.choice.rules import (
    LATENCY_GAIN,
    MAX_REPORT_AGE_S,
    ChoiceContext,
    calls_in_flight,
    rotated,
    silence,
)
from kwiken.runtime.wire.transport.base import Reply

EQUAL = 0.8  # ratio of two scores from which on the former rule takes them as equal, if both queues are too
FORMER_HALF_LIFE_S = 5.0  # of an estimate without news, by the former rule
EXPONENT = 3  # of the queue in C3
POOL = 16  # probes that Prequal keeps
PROBE_AGE_S = 1.0  # age at which Prequal drops a probe
HOT_QUANTILE = 0.84  # of calls in flight, above which a replica is hot
PROBES_PER_CALL = 3
MISS = 1e-3  # probability that a sample holds no good replica
GOOD = 1.5  # times the median score up to which a replica is good
MIN_SAMPLE, MAX_SAMPLE = 2, 32
POLL_S = 0.1  # interval at which the share of good replicas is looked at
QUEUE, LATENCY = 2, 3  # places of a probe's fields
Probe = tuple[float, ReplicaState, int, float]  # moment, replica, calls in flight, its latency at that queue


class UniformChoice:
    """Any replica, all alike."""

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Draw one."""
        return live[int(stage.rng.random() * len(live))]

    def score(self, target: ReplicaState, now: float, stage: ChoiceContext) -> float:
        """The same for all."""
        return 1.0

    def answered(self, target: ReplicaState, now: float, took: float, reply: Reply) -> None:
        """Learn nothing."""


class TwoChoices(UniformChoice):
    """The one of two drawn replicas with fewer calls in flight (Mitzenmacher 2001)."""

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Draw two, and compare."""
        one, other = pair(live, stage.rng)
        left, right = self.score(one, now, stage), self.score(other, now, stage)
        if left == right:
            return one if stage.rng.random() < 0.5 else other
        return one if left < right else other

    def score(self, target: ReplicaState, now: float, stage: ChoiceContext) -> float:
        """Calls in flight, times how long nothing was answered."""
        late = max(1.0, silence(target, now) / stage.typical) if stage.typical else 1.0
        return (calls_in_flight(target, now) + 1) * late


class FormerRule(TwoChoices):
    """Two choices by latency times queue: the runtime's rule until this comparison."""

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Draw two, and compare; near ties with equal queues by a coin."""
        one, other = pair(live, stage.rng)
        left, right = self.score(one, now, stage), self.score(other, now, stage)
        low, high = min(left, right), max(left, right)
        if low == high or (low > EQUAL * high and len(one.waiting) == len(other.waiting)):
            return one if stage.rng.random() < 0.5 else other
        return one if left < right else other

    def score(self, target: ReplicaState, now: float, stage: ChoiceContext) -> float:
        """Expected latency, or the age of the oldest call where that is more, times the queue."""
        latency = expected(target, now, stage, FORMER_HALF_LIFE_S)
        return max(latency, silence(target, now)) * (calls_in_flight(target, now) + 1)


class LeastInFlight(TwoChoices):
    """Fewest calls in flight of up to 16."""

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Take the least; ties by the place from which the search starts."""
        return min(rotated(live, stage.rng), key=lambda target: self.score(target, now, stage))


class LeastLatency(FormerRule):
    """Least expected latency times queue, of up to 16."""

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Take the least."""
        return min(rotated(live, stage.rng), key=lambda target: self.score(target, now, stage))


class C3(LeastInFlight):
    """C3's ranking with the cube of the queue (NSDI 2015), over up to 16 replicas.

    Args:
        clients: number of gateways, by which each scales its own calls in flight.
    """

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._service: dict[ReplicaState, float] = {}
        self._queue: dict[ReplicaState, float] = {}

    def score(self, target: ReplicaState, now: float, stage: ChoiceContext) -> float:
        """Latency less service time, plus the cube of the estimated queue times the service time."""
        service = self._service.get(target, stage.typical or 1.0)
        latency = target.latency or service
        queue = 1 + len(target.waiting) * self.clients + self._queue.get(target, 0.0)
        return (max(latency, silence(target, now)) - service) + queue**EXPONENT * service

    def answered(self, target: ReplicaState, now: float, took: float, reply: Reply) -> None:
        """Smooth the service time and the queue that the replica reports."""
        for kept, value in (
            (self._service, took if reply.busy_ms is None else reply.busy_ms / 1e3),
            (self._queue, float(reply.inflight or 1) - 1),
        ):
            known = kept.get(target, value)
            kept[target] = known + LATENCY_GAIN * (value - known)


class Prequal:
    """Prequal's choice by probes (NSDI 2024): the fastest cold replica, or the hot one with the least queue.

    The world sends the probes: `to_probe` names replicas after each choice, `probe_answered` brings results.
    A probe serves one call; with each choice the oldest or the worst one leaves the pool, in turn.
    """

    def __init__(self) -> None:
        self._pool: list[Probe] = []
        self._seen: deque[int] = deque(maxlen=128)  # calls in flight of recent probes
        self._by_age = True

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Choose from the pool of fresh probes; at random while it holds fewer than two."""
        alive = set(live)
        self._pool = [probe for probe in self._pool if now - probe[0] <= PROBE_AGE_S and probe[1] in alive]
        if len(self._pool) < 2:
            return live[int(stage.rng.random() * len(live))]
        limit = sorted(self._seen)[min(int(HOT_QUANTILE * len(self._seen)), len(self._seen) - 1)]
        cold = [probe for probe in self._pool if probe[2] <= limit]
        chosen = (
            min(cold, key=lambda probe: probe[3]) if cold else min(self._pool, key=lambda probe: probe[2])
        )
        self._pool.remove(chosen)
        if len(self._pool) > POOL // 2:
            hot = [probe for probe in self._pool if probe[2] > limit]
            worst = (
                max(hot, key=lambda probe: probe[2]) if hot else max(self._pool, key=lambda probe: probe[3])
            )
            self._pool.remove(self._pool[0] if self._by_age else worst)
            self._by_age = not self._by_age
        return chosen[1]

    def score(self, target: ReplicaState, now: float, stage: ChoiceContext) -> float:
        """Own calls in flight, for further attempts."""
        return float(len(target.waiting) + 1)

    def answered(self, target: ReplicaState, now: float, took: float, reply: Reply) -> None:
        """Learn nothing: probes tell."""

    def to_probe(self, live: Sequence[ReplicaState], rng: random.Random) -> list[ReplicaState]:
        """Replicas to probe after a choice."""
        return rng.sample(list(live), min(PROBES_PER_CALL, len(live)))

    def probe_answered(self, target: ReplicaState, now: float, queue: int, latency_s: float) -> None:
        """Take the result of a probe into the pool, whose oldest one leaves if it is full."""
        self._pool.append((now, target, queue, latency_s))
        del self._pool[:-POOL]
        self._seen.append(queue)


class SampledChoice(LeastLatency):
    """The best of a sample whose size follows from a guarantee and the share of good replicas (Tarcil).

    While all replicas are alike two draws do; while many are slow the sample grows, so that with probability
    0.999 it holds one that is good.
    """

    def __init__(self) -> None:
        self._size = MIN_SAMPLE
        self._looked_at = -POLL_S

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Draw as many as the guarantee needs, and take the best."""
        if now - self._looked_at >= POLL_S:
            self._looked_at = now
            scores = sorted(self.score(target, now, stage) for target in live)
            limit = GOOD * scores[len(scores) // 2]
            self._size = size_for(sum(score <= limit for score in scores) / len(scores))
        few = live if len(live) <= self._size else stage.rng.sample(list(live), self._size)
        return min(few, key=lambda target: (self.score(target, now, stage), stage.rng.random()))


def size_for(good: float) -> int:
    """Draws that hold a good replica with probability 0.999.

    Args:
        good: share of good replicas, 0 to 1.
    """
    if good >= 1.0:
        return MIN_SAMPLE
    return min(max(ceil(log(MISS) / log(1.0 - good)), MIN_SAMPLE), MAX_SAMPLE)


def pair(live: Sequence[ReplicaState], rng: random.Random) -> tuple[ReplicaState, ReplicaState]:
    """Two different replicas, drawn at random."""
    count = len(live)
    draw = rng.random() * count
    first = int(draw)
    second = int((draw - first) * (count - 1))
    return live[first], live[second if second < first else second + 1]


def expected(target: ReplicaState, now: float, stage: ChoiceContext, half_life_s: float) -> float:
    """Latency estimate, which moves to the stage's while there are no news of the replica."""
    latency, typical = target.latency, stage.typical
    if latency and now - target.updated_at >= MAX_REPORT_AGE_S:
        latency = typical + (latency - typical) * exp2(-(now - target.updated_at) / half_life_s)
    return latency or typical or 1.0
