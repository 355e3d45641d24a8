"""Service that streams with published times: search in three shelves, ranking, and generated text.

The stages are those of `services/story.py`. Distributions, generator and rules were committed before any arm
was run on them, and were not changed since. It shares no code with the planner's models:

- **Published times.** A measurement states a few quantiles. Between two of them the logarithm of the time is
  linear in the normal score of the quantile; beyond the outer ones the line of the next two goes on, up to
  the shortest and longest time that the measurement states. So the drawn times have the published quantiles.
- **Calls of one request.** The normal scores of a call and its copy have the correlation `likeness`: no
  measurement states it, so two values are tried. Shelves and stages are independent of each other.
- **Work** of an attempt is the time for which it holds its replica. Replicas take any number of calls at
  once: the waits in their queues are part of the published times, and copies do not make them longer.
  Replicas state no CPU time, as the work is done by servers outside of them; so kwiken charges each copy
  with its stage's typical time.

Every draw has a seed of its own, made of the seed of the run, the request, the call and the attempt. So all
arms meet the same times, as long as they send the same attempts.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

from kwiken import Partial, Service
from kwiken.model.plan.plan import Plan
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from kwiken.testing.client import ServiceClient
from kwiken.testing.virtual_loop import VirtualClock

SHELVES, REPLICAS = 3, 4
TOKENS = 8  # more of them cost only time: the race is over with the first
NORMAL = NormalDist()


@dataclass(frozen=True)
class Published:
    """Quantiles of a time as a measurement states them.

    Attributes:
        quantiles: pairs of a share of the values, from 0 to 1, and the time that it does not exceed,
            milliseconds; two or more, ascending.
        shortest_ms: shortest time, milliseconds; 0 where none is stated.
        longest_ms: longest time, milliseconds; infinite where none is stated.
    """

    quantiles: Sequence[tuple[float, float]]
    shortest_ms: float = 0.0
    longest_ms: float = math.inf

    def at(self, score: float) -> float:
        """Time at a normal score, milliseconds."""
        points = [(NORMAL.inv_cdf(share), math.log(ms)) for share, ms in self.quantiles]
        for (left, low), (right, high) in pairwise(points):  # noqa: B007 - the last pair is used after the loop
            if score <= right:
                break
        ms = math.exp(low + (score - left) * (high - low) / (right - left))
        return min(self.longest_ms, max(self.shortest_ms, ms))


@dataclass(frozen=True)
class Times:
    """Published times of the service's stages.

    Attributes:
        retrieve: search of one shelf.
        rerank: ranking of the passages.
        first: wait for the first token.
        between: wait for each further token.
    """

    name: str
    retrieve: Published
    rerank: Published
    first: Published
    between: Published


# 1. Dense search in 1 million and in 100 million vectors (p50, p95, p99; https://www.topk.io/benchmarks).
# 2. Ranking: 50 documents by zerank-2 under Poisson arrivals, shares above thresholds
#    (https://zeroentropy.dev/articles/latency-performance-assessment-of-zerank-2); a retriever with a ranker
#    in Elasticsearch (https://github.com/elastic/rally-tracks/pull/639).
# 3. Tokens: vLLM on two GPUs, 8 requests at once, 1,000 requests ("TP2, base" in
#    https://github.com/vllm-project/vllm/pull/31826); vLLM under a Poisson stream of 200 requests a second,
#    23,465 requests (https://github.com/llm-d/llm-d-autoscaling/pull/1025).
FIRST_SET = Times(
    "first set",
    retrieve=Published(((0.5, 6.8), (0.95, 9.1), (0.99, 13.0))),
    rerank=Published(
        ((0.495, 150.0), (0.788, 200.0), (0.887, 250.0), (0.973, 500.0), (0.986, 750.0), (0.991, 1000.0)),
        shortest_ms=100.0,
        longest_ms=3000.0,
    ),
    first=Published(((0.5, 27.44), (0.99, 97.69))),
    between=Published(((0.5, 6.08), (0.99, 18.73))),
)
SECOND_SET = Times(
    "second set",
    retrieve=Published(((0.5, 24.0), (0.95, 34.0), (0.99, 41.0))),
    rerank=Published(
        ((0.5, 130.079), (0.9, 234.015), (0.99, 376.128), (0.999, 508.115), (0.9999, 705.915)),
        longest_ms=795.822,
    ),
    first=Published(((0.5, 28.6), (0.9, 193.0), (0.99, 415.8)), longest_ms=673.3),
    between=Published(((0.5, 6.5), (0.9, 22.7), (0.99, 56.7))),
)


class OutsideWork(LocalTransport):
    """Transport of a service whose work is done outside of its replicas, so that these state none."""

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Run the handler, and leave out for how long it ran."""
        reply = await super().call(replica, call)
        reply.busy_ms = None
        return reply


class StoryWorld:
    """One run of the service.

    Args:
        likeness: correlation of the normal scores of a call and its copy, 0 to 1.

    Attributes:
        service: the service, whose requests are their own numbers.
        work_ms: work of first attempts, milliseconds.
        copied_ms: work of further attempts, up to their first item.
    """

    def __init__(self, times: Times, likeness: float, *, seed: int) -> None:
        self._likeness = likeness
        self._seed = seed
        self._attempts: Counter[tuple[int, str, int]] = Counter()
        self.work_ms = self.copied_ms = 0.0
        self.service = service = Service("story")

        @service.stage(fanout=SHELVES, replicas=REPLICAS, idempotent=True)
        async def retrieve(number: int, *, shard: int) -> int:
            await self._serve(times.retrieve, number, "retrieve", shard)
            return number

        @service.stage(after=[retrieve], replicas=REPLICAS, idempotent=True)
        async def rerank(found: Partial[int]) -> int:
            (number,) = set(found.present)
            await self._serve(times.rerank, number, "rerank")
            return number

        @service.stage(after=[rerank], replicas=REPLICAS, idempotent=True)
        async def generate(number: int) -> AsyncIterator[int]:
            copy = await self._serve(times.first, number, "generate")
            rng = random.Random(f"{seed} {number} tokens")
            for token in range(TOKENS):
                if token:
                    wait_ms = times.between.at(rng.gauss())
                    await asyncio.sleep(wait_ms / 1e3)
                    self.work_ms += 0.0 if copy else wait_ms
                yield token

    def client(self, plan: Plan | None) -> ServiceClient:
        """Client of the gateway's engine, in the running virtual loop, with a plan in force or none."""
        clock = VirtualClock()
        executor = Executor(
            self.service,
            OutsideWork(self.service, now=clock.monotonic),
            replicas=local_replicas(self.service),
            clock=clock,
            rng=random.Random(self._seed),
            control_share=0.0,
        )
        executor.apply(plan)
        client = ServiceClient(executor, clock)
        executor.watcher = client
        return client

    def _score(self, *call: int | str) -> float:
        return random.Random(" ".join(map(str, (self._seed, *call)))).gauss()

    async def _serve(self, times: Published, number: int, stage: str, shard: int = 0) -> bool:
        """Take the time of an attempt, and note its work; returns whether it is a copy."""
        attempt = self._attempts[number, stage, shard]
        self._attempts[number, stage, shard] += 1
        common = self._score(number, stage, shard, "call")
        own = self._score(number, stage, shard, attempt)
        score = math.sqrt(self._likeness) * common + math.sqrt(1 - self._likeness) * own
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await asyncio.sleep(times.at(score) / 1e3)
        finally:
            took_ms = (loop.time() - began) * 1e3
            if attempt:
                self.copied_ms += took_ms
            else:
                self.work_ms += took_ms
        return attempt > 0
