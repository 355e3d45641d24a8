"""Simulated replicas for the comparison of rules of replica choice.

Written down before any rule was run on it, and independent of every rule's model: no rule knows the number of
workers, the shape of the service times, the neighbours that come and go, or the pauses. Times in seconds.

A replica has two workers and one queue. A call's work is log-normal with mean 10 ms, one in fifty is eight
times as long. A neighbour that comes and goes (on for 1 s, off for 3 s in the mean) slows a replica by half.
The network takes 0.2 ms and an exponential 0.1 ms more each way. Calls come in a Poisson process, each to a
gateway that is drawn; every gateway has a picker of its own and hears of others' calls by reports alone.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from math import inf

import numpy as np

from benchmarks.choice.rival_rules import Prequal
from kwiken.base.arrays import Floats, Ints
from kwiken.runtime.decisions.choice.picker import Picker
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.choice.rules import ChoiceRule
from kwiken.runtime.wire.transport.base import Replica, Reply

WORKERS = 2
MEAN_S = 0.01
SIGMA = 0.6  # of the logarithm of a call's work
LONG_SHARE, LONG = 0.02, 8.0
NET_S, JITTER_S = 0.0002, 0.0001
BUSY_S, QUIET_S, BUSY_FACTOR = 1.0, 3.0, 1.5  # a neighbour: mean times, and how much slower calls are
COLD_CALLS, COLD_FACTOR = 200, 5.0  # calls that a cold replica needs to be warm, and how slow it starts
WARM_UP_S = 2.0  # of every run, which is not counted


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Replicas, gateways and what is wrong.

    Attributes:
        replicas: number of replicas.
        gateways: number of gateways with a picker each.
        slow: number of replicas that take `slow_factor` times as long all the time.
        slow_factor: how many times as long a slow replica takes.
        stalling: number of replicas that stop for 0.5 s, about every 2 s.
        cold: number of replicas that join in the middle, without a warm cache.
        busy: number of replicas half of whose workers others use.
    """

    name: str
    replicas: int
    gateways: int = 1
    slow: int = 0
    slow_factor: float = 4.0
    stalling: int = 0
    cold: int = 0
    busy: int = 0


STALL_S, STALL_EVERY_S = 0.5, 2.0
SCENES = (
    Scene(name="12 alike", replicas=12),
    Scene(name="3 replicas, 1 half busy", replicas=3, busy=1),
    Scene(name="12, one slow", replicas=12, slow=1),
    Scene(name="12, one stalling", replicas=12, stalling=1),
    Scene(name="12, one cold", replicas=12, cold=1),
    Scene(name="24, four gateways", replicas=24, gateways=4),
    Scene(name="40, a tenth stalling", replicas=40, stalling=4),
    Scene(name="40, a tenth stalling, four gateways", replicas=40, gateways=4, stalling=4),
)


@dataclass(eq=False, slots=True)
class SentCall:
    """A call on its way.

    Attributes:
        sent_at: moment of the choice, seconds.
        came: moment at which it reached its replica, seconds.
        met: number of calls that were at the replica then.
    """

    call: int
    sent_at: float
    picker: Picker
    target: ReplicaState
    ticket: int
    came: float = 0.0
    met: int = 0


@dataclass(eq=False)
class SimulatedReplica:
    """One replica's queue and disturbances."""

    queue: deque[SentCall] = field(default_factory=deque)
    running: int = 0
    workers: int = WORKERS
    factor: float = 1.0
    stalls: tuple[float, ...] = ()
    changes: tuple[float, ...] = ()  # moments at which the neighbour comes or goes
    cold_calls: int = 0
    # Its own latency estimates by the calls in flight at arrival, for probes.
    latency_s: dict[int, float] = field(default_factory=dict)

    @property
    def inflight(self) -> int:
        """Calls at the replica, in service or waiting."""
        return self.running + len(self.queue)

    def stalled(self, now: float) -> bool:
        """Whether the replica stands still."""
        place = bisect_right(self.stalls, now)
        return place > 0 and now < self.stalls[place - 1] + STALL_S

    def learn(self, took: float, inflight: int) -> None:
        """Smooth the latency of calls that met so many others."""
        known = self.latency_s.get(inflight, took)
        self.latency_s[inflight] = known + 0.2 * (took - known)

    def estimate(self, inflight: int) -> float:
        """Latency of a call that meets so many others, from the nearest number that was seen."""
        if not self.latency_s:
            return MEAN_S
        return self.latency_s[min(self.latency_s, key=lambda seen: abs(seen - inflight))]

    def ends(self, now: float, work: float) -> float:
        """Moment at which a call ends that starts now."""
        if bisect_right(self.changes, now) % 2:
            work *= BUSY_FACTOR
        if self.cold_calls:
            work *= 1.0 + (COLD_FACTOR - 1.0) * self.cold_calls / COLD_CALLS
            self.cold_calls -= 1
        left = work * self.factor
        place = bisect_right(self.stalls, now)
        end = self.stalls[place - 1] + STALL_S if self.stalled(now) else now
        while place < len(self.stalls) and end + left > self.stalls[place]:
            left -= max(0.0, self.stalls[place] - end)
            end = self.stalls[place] + STALL_S
            place += 1
        return end + left


@dataclass(frozen=True, eq=False)
class ChoiceRun:
    """What callers saw.

    Attributes:
        latency_s: (n,) latency of each call, seconds.
        replica: (n,) number of the replica that served it.
        chosen_at: (n,) moment of the choice, seconds.
    """

    latency_s: Floats
    replica: Ints
    chosen_at: Floats


def mean_work_s() -> float:
    """Mean work of one call on an undisturbed replica."""
    busy = 1.0 + (BUSY_FACTOR - 1.0) * BUSY_S / (BUSY_S + QUIET_S)
    return MEAN_S * (1.0 + LONG_SHARE * (LONG - 1.0)) * busy


def capacity_per_s(scene: Scene) -> float:
    """Calls a second that all replicas of a scene serve together."""
    stalled = STALL_S / (STALL_EVERY_S + STALL_S)
    workers = WORKERS * (
        scene.replicas
        - scene.slow * (1 - 1 / scene.slow_factor)
        - scene.stalling * stalled
        - scene.busy * 0.5
        - scene.cold * 0.5
    )
    return workers / mean_work_s()


def play(scene: Scene, load: float, rules: Sequence[ChoiceRule], calls: int, seed: int) -> ChoiceRun:
    """Send calls through pickers with a rule.

    Args:
        load: share of the capacity that is used, 0 to 1.
        rules: rule of each gateway.
        calls: number of calls that count, after those of the warm-up.
    """
    return _World(scene, load, rules, calls, seed).run()


class _World:
    """One run: an event is a moment and what happens then."""

    def __init__(self, scene: Scene, load: float, rules: Sequence[ChoiceRule], calls: int, seed: int) -> None:
        world = np.random.default_rng([seed, 1])
        rate = load * capacity_per_s(scene)
        calls += int(rate * WARM_UP_S)
        self.arrivals = np.cumsum(world.exponential(1 / rate, calls))
        work = MEAN_S * world.lognormal(-(SIGMA**2) / 2, SIGMA, calls)
        work[world.random(calls) < LONG_SHARE] *= LONG
        self.work: list[float] = work.tolist()
        self.gateway_of: list[int] = world.integers(len(rules), size=calls).tolist()
        self.there, self.back = (NET_S + world.exponential(JITTER_S, (2, calls))).tolist()
        self.rng = random.Random(seed * 2 + 1)
        span = float(self.arrivals[-1]) + 5.0
        self.replicas = _replicas(scene, span, world)
        self.ids = [Replica(id=str(number), node=str(number), address="") for number in range(scene.replicas)]
        self.number_of = {each: number for number, each in enumerate(self.ids)}
        self.joins_at = span / 2 if scene.cold else inf
        self.rules = rules
        self.pickers = [
            Picker(self.ids[scene.cold :], random.Random(seed * 100 + place), rule)
            for place, rule in enumerate(rules)
        ]
        self.took = np.zeros(calls)
        self.served = np.zeros(calls, dtype=np.int64)
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.pushed = 0

    def run(self) -> ChoiceRun:
        """Play all events up to the last answer."""
        for call, now in enumerate(self.arrivals.tolist()):
            self._until(now)
            self._choose(call, now)
        self._until(inf)
        counted = self.arrivals >= WARM_UP_S
        return ChoiceRun(self.took[counted], self.served[counted], self.arrivals[counted])

    def _until(self, moment: float) -> None:
        while self.events and self.events[0][0] < moment:
            now, _, happens = heappop(self.events)
            happens(now)

    def _at(self, moment: float, happens: Callable[[float], None]) -> None:
        self.pushed += 1
        heappush(self.events, (moment, self.pushed, happens))

    def _choose(self, call: int, now: float) -> None:
        """A gateway picks a replica."""
        if now > self.joins_at:
            self.joins_at = inf
            for each in self.pickers:
                each.replace(self.ids)
        gateway = self.gateway_of[call]
        picker, rule = self.pickers[gateway], self.rules[gateway]
        target = picker.pick(now)
        assert target is not None
        number = self.served[call] = self.number_of[target.replica]
        sent = SentCall(call, now, picker, target, target.take(now))
        self._at(now + self.there[call], partial(self._come, self.replicas[number], sent))
        if isinstance(rule, Prequal):
            for probed in rule.to_probe(picker.targets, self.rng):
                self._at(now + self._hop(), partial(self._probe, rule, probed))

    def _hop(self) -> float:
        return NET_S + self.rng.expovariate(1 / JITTER_S)

    def _come(self, replica: SimulatedReplica, sent: SentCall, now: float) -> None:
        """A call reaches its replica."""
        sent.came, sent.met = now, replica.inflight
        if replica.running < replica.workers:
            replica.running += 1
            self._begin(replica, sent, now)
        else:
            replica.queue.append(sent)

    def _begin(self, replica: SimulatedReplica, sent: SentCall, now: float) -> None:
        end = replica.ends(now, self.work[sent.call])
        self._at(end, partial(self._end, replica, sent, end - now))

    def _end(self, replica: SimulatedReplica, sent: SentCall, busy_s: float, now: float) -> None:
        """A worker is done with a call; it begins the next one that waits."""
        reply = Reply(value=None, busy_ms=busy_s * 1e3, inflight=replica.inflight)
        replica.learn(now - sent.came, sent.met)
        if replica.queue:
            self._begin(replica, replica.queue.popleft(), now)
        else:
            replica.running -= 1
        self._at(now + self.back[sent.call], partial(self._answer, sent, reply))

    def _answer(self, sent: SentCall, reply: Reply, now: float) -> None:
        """An answer reaches its gateway."""
        sent.picker.answered(sent.target, sent.ticket, now, reply)
        self.took[sent.call] = now - sent.sent_at

    def _probe(self, rule: Prequal, probed: ReplicaState, now: float) -> None:
        """A probe reaches a replica, which answers at once unless it is stalled."""
        replica = self.replicas[self.number_of[probed.replica]]
        if not replica.stalled(now):
            inflight = replica.inflight
            answer = partial(self._probe_answer, rule, probed, inflight, replica.estimate(inflight))
            self._at(now + self._hop(), answer)

    @staticmethod
    def _probe_answer(
        rule: Prequal, probed: ReplicaState, inflight: int, latency_s: float, now: float
    ) -> None:
        rule.probe_answered(probed, now, inflight, latency_s)


def _replicas(scene: Scene, span: float, world: np.random.Generator) -> list[SimulatedReplica]:
    """Replicas with their disturbances; those of a scene come first: cold, slow, stalling, busy ones."""
    replicas = [SimulatedReplica() for _ in range(scene.replicas)]
    for replica in replicas:
        count = int(span / (BUSY_S + QUIET_S)) * 2 + 20
        lengths = np.empty(2 * count)
        lengths[::2] = world.exponential(QUIET_S, count)
        lengths[1::2] = world.exponential(BUSY_S, count)
        replica.changes = tuple(np.cumsum(lengths).tolist())
    place = 0
    for replica in replicas[place : place + scene.cold]:
        replica.cold_calls = COLD_CALLS
    place += scene.cold
    for replica in replicas[place : place + scene.slow]:
        replica.factor = scene.slow_factor
    place += scene.slow
    for replica in replicas[place : place + scene.stalling]:
        count = int(span / STALL_EVERY_S) + 20
        gaps = STALL_S + world.exponential(STALL_EVERY_S, count)
        replica.stalls = tuple(np.cumsum(gaps).tolist())
    place += scene.stalling
    for replica in replicas[place : place + scene.busy]:
        replica.workers = WORKERS // 2
    return replicas
