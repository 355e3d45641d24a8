"""The four races of calls with their copies, on common input.

The runtime decides one live call, the simulation races a block of calls at once, the queueing simulator goes
event by event, and the curves compute moments in closed form. On calls that no queue delays all must give the
same latencies and the same numbers of copies.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.tail.curves.fan_out import RankedCalls, slowest_moments
from kwiken.tail.queueing.simulator.calls import CallOutcomes, SimulatedCalls
from kwiken.tail.queueing.simulator.race import QueueRace
from kwiken.tail.queueing.simulator.service_times import Constant
from kwiken.tail.queueing.simulator.stage import race_without_queues
from kwiken.tail.queueing.simulator.station import Station
from kwiken.tail.simulation.block_race import BlockRace
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import Script, endow, executor_of, plan_of, service_of

# Whole milliseconds, because the runtime rounds time-outs up to them; no call ends at one.
POLICIES = [
    Reissue(after_ms=9.0, fraction=0.5),
    Reissue(after_ms=4.0, copies=2, fraction=0.5),
    Reissue(after_ms=3.0, copies=4, fraction=0.5),
]


def latencies(count: int) -> Floats:
    """Different latencies, milliseconds; no call is answered just when a copy of a policy above is due."""
    return np.random.default_rng(3).permutation(count) / 8.0 + 1.0625


class Copies:
    """Latencies of copies: a fixed sequence for each call, sometimes faster and sometimes slower than the call."""

    def __init__(self) -> None:
        self.sent: Counter[float] = Counter()

    def next_ms(self, call_ms: float) -> float:
        self.sent[call_ms] += 1
        return 1.015625 + (8 * call_ms + 5 * self.sent[call_ms]) % 23

    def work_and_rest(self, rest_ms: float) -> tuple[float, float]:
        return 0.0, self.next_ms(rest_ms)


class FixedCopies(Copies):
    """The same as a source of copies for a block of calls, with given coins."""

    def __init__(self, calls_ms: Floats, heads: NDArray[np.bool_]) -> None:
        super().__init__()
        self.calls_ms, self.heads = calls_ms, heads

    def copies(self, which: NDArray[np.int64]) -> Floats:
        return np.array([self.next_ms(call) for call in self.calls_ms[which].tolist()])

    def coins(self, which: NDArray[np.int64]) -> Floats:
        return np.where(self.heads[which], 0.0, 1.0)


def in_blocks(
    calls_ms: Floats, policy: Reissue, heads: NDArray[np.bool_] | None = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Latencies and numbers of copies by the vectorised race."""
    heads = np.ones(len(calls_ms), np.bool_) if heads is None else heads
    race = BlockRace(calls_ms.copy()[:, None], FixedCopies(calls_ms, heads))
    race.run(policy)
    return race.ends[:, 0], race.sent_before(None)[0]


def station(policy: Reissue, replicas: int | None) -> Station:
    return Station(name="a", work=Constant(1.0), replicas=replicas, reissue=policy)


def calls_far_apart(calls_ms: Floats) -> SimulatedCalls:
    """Calls that rest and do no work, and of which each is answered long before the next arrives."""
    count = len(calls_ms)
    return SimulatedCalls(
        np.arange(0.0, 1024.0 * count, 1024.0), np.zeros(count), calls_ms, np.full(count, -1)
    )


def in_queues(calls_ms: Floats, policy: Reissue) -> CallOutcomes:
    """Outcomes by the event simulation, with a replica for every copy."""
    rng, replicas = np.random.default_rng(0), policy.copies + 1
    calls = calls_far_apart(calls_ms)
    return QueueRace(station(policy, replicas), calls, Copies().work_and_rest, rng).run()


def without_queues(calls_ms: Floats, policy: Reissue) -> CallOutcomes:
    """Outcomes by the simulation of a stage whose replicas are not modelled."""
    rng, calls = np.random.default_rng(0), calls_far_apart(calls_ms)
    return race_without_queues(station(policy, None), calls, Copies().work_and_rest, rng)


def live(calls_ms: Floats, policy: Reissue) -> tuple[Floats, list[int]]:
    """Latencies and numbers of copies by the runtime, in virtual time, with a ledger that denies nothing."""
    current, copies = 0.0, Copies()

    async def answer(_: Replica, call: Call) -> str:
        if call.stage == "s":
            await asyncio.sleep((copies.next_ms(current) if call.attempt else current) / 1e3)
        return "ok"

    async def main() -> tuple[Floats, list[int]]:
        nonlocal current
        raced = Stage(name="s", replicas=policy.copies + 1, idempotent=True, timeout_ms=5000.0)
        service = service_of(raced, Stage(name="costly", after=("s",), timeout_ms=5000.0))
        script = Script(answer)
        executor = executor_of(service, script)
        # A request may spend its own cost on copies, so the other stage makes most of it.
        executor.apply(plan_of(service, {"s": policy}, budget=1.0, costs={"s": 0.1, "costly": 0.9}))
        loop = asyncio.get_running_loop()
        latency_ms, sent = [], []
        for current in calls_ms.tolist():  # noqa: B007 - `answer` reads it
            endow(executor)
            start, before = loop.time(), len(script.of("s"))
            await executor.run("q")
            latency_ms.append((loop.time() - start) * 1e3)
            sent.append(len(script.of("s")) - before - 1)
        return np.array(latency_ms), sent

    return simulate(main)


@pytest.mark.parametrize("policy", POLICIES)
def test_all_races_give_the_same_latencies_and_copies(policy: Reissue) -> None:
    calls_ms = latencies(120)
    block_ms, block_copies = in_blocks(calls_ms, policy)
    assert set(block_copies.tolist()) == set(range(policy.copies + 1))
    assert (block_ms < calls_ms).any()

    for simulated in (in_queues(calls_ms, policy), without_queues(calls_ms, policy)):
        np.testing.assert_allclose(simulated.latency_ms, block_ms)
        np.testing.assert_array_equal(simulated.copies, block_copies)

    live_ms, live_copies = live(calls_ms, policy)
    np.testing.assert_allclose(live_ms, block_ms, atol=1e-3)
    np.testing.assert_array_equal(live_copies, block_copies)


@pytest.mark.parametrize("copies", [1, 3])
def test_one_coin_decides_for_all_copies_of_a_call(copies: int) -> None:
    calls_ms = latencies(400)
    certain = Reissue(after_ms=4.0, copies=copies)
    policy = Reissue(after_ms=4.0, probability=0.5, copies=copies, fraction=0.5)
    raced_ms, raced_copies = in_blocks(calls_ms, certain)
    queued, unqueued = in_queues(calls_ms, policy), without_queues(calls_ms, policy)
    live_ms, live_copies = live(calls_ms, policy)
    for latency_ms, sent in (
        (queued.latency_ms, queued.copies),
        (unqueued.latency_ms, unqueued.copies),
        (live_ms, np.array(live_copies)),
    ):
        heads = sent > 0
        assert 0.4 < heads.sum() / (raced_copies > 0).sum() < 0.6
        np.testing.assert_allclose(latency_ms, np.where(heads, raced_ms, calls_ms), atol=1e-3)
        np.testing.assert_array_equal(sent, np.where(heads, raced_copies, 0))
        block_ms, block_copies = in_blocks(calls_ms, policy, heads)
        np.testing.assert_allclose(block_ms, latency_ms, atol=1e-3)
        np.testing.assert_array_equal(block_copies, sent)


@pytest.mark.parametrize("probability", [1.0, 0.25])
@pytest.mark.parametrize("after_ms", [0.0, 9.5, 30.5])
def test_the_moments_of_a_curve_are_the_means_over_races(after_ms: float, probability: float) -> None:
    """Every call races each copy once; a coin mixes the calls that race with the calls that do not."""
    calls_ms = latencies(300)
    copies_ms = np.array([1.0, 4.0, 12.5, 40.0])
    distribution = EmpiricalDistribution.of(copies_ms)
    mean, square = slowest_moments(
        RankedCalls.of(calls_ms), distribution, np.array([after_ms]), probability=probability
    )

    class EveryCopy(FixedCopies):
        def copies(self, which: NDArray[np.int64]) -> Floats:
            return copies_ms[which % len(copies_ms)]

    repeated = np.repeat(calls_ms, len(copies_ms))
    race = BlockRace(repeated.copy()[:, None], EveryCopy(repeated, np.ones(len(repeated), np.bool_)))
    race.run(Reissue(after_ms=after_ms))
    raced = race.ends[:, 0]
    for moment, power in ((mean, 1), (square, 2)):
        mixed = probability * raced**power + (1 - probability) * repeated**power
        assert moment[0] == pytest.approx(mixed.mean(), rel=1e-9)
