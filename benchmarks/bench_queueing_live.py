"""What the queueing simulator says of a running service, beside what is measured: p99 at three loads.

One load is learned from, without a plan. From that profile a plan is made, and p99 predicted at each load
without and with it. Then both run live, in turns, and p99 is read from the gateway's spans.

`queued` has queues and nothing else, so it tests the simulator and the runtime's rules. `search` burns
processors of a machine that all its processes share, and that is not simulated. `demo` is the same with the
demo's pauses, which make its tail.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Self

import aiohttp
import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import Row
from cli.demo import Disturber, choose
from kwiken import Budgets, Plan, Profile, make_plan
from kwiken.queueing import Cancel, load_model, simulate_load
from otel import fit_profile
from runtime import Cluster

BUDGET = 0.05
TARGET_OFF = 10.0  # percent
SETTLE_S = 1.0  # after a switch of plans
FLUSH_S = 2.5  # the sink writes about once a second
SIMULATED = 60_000
SEED = 7
CREATED = "2026-01-01T00:00:00Z"
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A service and how it is loaded.

    Attributes:
        target: `MODULE:SERVICE`.
        rate: requests a second that are learned from.
        factors: loads, in that.
        cancel: what becomes of a race's losers.
        queries: whether the service asks for queries. The other answers how long its stages held their
            replicas, which stands for the busy times in the spans.
        disturbed: whether replicas are paused as in the demo.
    """

    target: str
    rate: float
    factors: tuple[float, ...]
    cancel: Cancel
    queries: bool = False
    disturbed: bool = False


CASES: Mapping[str, Case] = {
    "queued": Case(
        target="benchmarks._queued:queued",
        rate=180.0,
        factors=(0.5, 1.0, 1.4),
        cancel="running",  # a sleep is stopped at once
    ),
    "search": Case(
        target="services.search:search",
        rate=40.0,
        factors=(0.5, 1.0, 1.5),
        cancel="queued",  # a processor's work is not
        queries=True,
    ),
    "demo": Case(
        target="services.search:search",
        rate=40.0,
        factors=(0.5, 1.0, 1.5),
        cancel="queued",
        queries=True,
        disturbed=True,
    ),
}


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    learn_s, block_s, blocks = (8.0, 4.0, 1) if quick else (90.0, 20.0, 4)
    rows = []
    for name, case in CASES.items():
        rows += asyncio.run(_Trial(name, case, learn_s, block_s, blocks).rows())
    return rows


class _Trial:
    """One service, live."""

    def __init__(self, name: str, case: Case, learn_s: float, block_s: float, blocks: int) -> None:
        self._name, self._case = name, case
        self._learn_s, self._block_s, self._blocks = learn_s, block_s, blocks

    async def rows(self) -> list[Row]:
        with tempfile.TemporaryDirectory(prefix="kwiken-bench-") as scratch:
            folder = Path(scratch)
            self._traces = folder / "traces"
            self._queries = await _queries(folder) if self._case.queries else ()
            async with Cluster(self._case.target, traces=self._traces) as cluster:
                replicas = (await cluster.status())["replicas"]
                flaky = choose(replicas, SEED) if self._case.disturbed else {}
                async with Disturber(flaky, SEED):
                    profile = await self._learn(cluster)
                    plan = make_plan(profile, budgets=Budgets(reissue=BUDGET), created=CREATED)
                    factors = self._case.factors
                    measured = {factor: await self._measure(cluster, plan, factor) for factor in factors}
        return self._compared(profile, plan, measured)

    async def _learn(self, cluster: Cluster) -> Profile:
        async with _Load(cluster.gateway_url, self._case.rate, self._queries) as load:
            await asyncio.sleep(2 * SETTLE_S)
            since = time.time()
            await asyncio.sleep(self._learn_s)
            until = time.time()
        await asyncio.sleep(FLUSH_S)
        profile = fit_profile([self._traces], since_s=since, until_s=until)
        held = {
            name.removesuffix("_ms"): np.array([answer[name] for answer in load.answers])
            for name in (load.answers[0] if load.answers else ())
        }
        stages = tuple(
            replace(
                stage,
                busy_ms=float(held[stage.name].mean()),
                busy_variation=float(held[stage.name].std() / held[stage.name].mean()),
            )
            if stage.name in held
            else stage
            for stage in profile.stages
        )
        return replace(profile, stages=stages)

    async def _measure(self, cluster: Cluster, plan: Plan, factor: float) -> dict[str, Floats]:
        """Latencies by arm, the arms in turns."""
        spans: list[tuple[str, float, float]] = []
        async with _Load(cluster.gateway_url, self._case.rate * factor, self._queries):
            for block in range(self._blocks):
                order = (("before", None), ("after", plan))
                for arm, chosen in order if block % 2 == 0 else order[::-1]:
                    await cluster.put_plan(chosen)
                    await asyncio.sleep(SETTLE_S)
                    since = time.time()
                    await asyncio.sleep(self._block_s)
                    spans.append((arm, since, time.time()))
        await cluster.put_plan(None)
        await asyncio.sleep(FLUSH_S)
        whole = fit_profile([self._traces], since_s=spans[0][1], until_s=spans[-1][2])
        return {
            arm: np.concatenate(
                [
                    whole.latency_ms[(whole.started_s >= since) & (whole.started_s < until)]
                    for name, since, until in spans
                    if name == arm
                ]
            )
            for arm in ("before", "after")
        }

    def _compared(
        self, profile: Profile, plan: Plan, measured: Mapping[float, Mapping[str, Floats]]
    ) -> list[Row]:
        model = load_model(profile, rate_per_s=self._case.rate, cancel=self._case.cancel)
        rows = []
        for factor, arms in measured.items():
            said = simulate_load(model, plan, factor=factor, requests=SIMULATED)
            busiest = max(stage.busy_at(factor) for stage in model.stages.values())
            for arm, latency_ms in (("before", said.before_ms), ("after", said.after_ms)):
                label = f"{self._name}, {factor:g} times the load ({busiest:.0%} busy), {arm}"
                rows.append(_row(label, latency_ms, arms[arm]))
        return rows


def _row(label: str, said: Floats, measured: Floats) -> Row:
    """How far p99 was off, percent; the spread is chance's share: of thirds of the measured requests."""
    predicted, seen = (float(np.percentile(latency, 99)) for latency in (said, measured))
    thirds = [float(np.percentile(part, 99)) for part in np.array_split(measured, 3)]
    return Row(
        name=f"p99 of {label}: predicted {predicted:.1f} ms, measured {seen:.1f} ms",
        ours=abs(predicted / seen - 1) * 100,
        target=TARGET_OFF,
        unit="% off",
        alternative=f"thirds of {len(measured)} requests: " + ", ".join(f"{third:.1f}" for third in thirds),
    )


class _Load:
    """Open-loop Poisson load from this process for as long as the context is open; it keeps the answers.

    Args:
        url: of the gateway.
        rate: requests a second.
        queries: lines to draw from; none for empty requests.
    """

    def __init__(self, url: str, rate: float, queries: Sequence[str]) -> None:
        self._url, self._rate, self._queries = f"{url}/v1/request", rate, queries
        self._rng = np.random.default_rng()
        self._calls: set[asyncio.Task[None]] = set()
        self.answers: list[dict[str, float]] = []
        self.failed = 0

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._sender = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sender.cancel()
        await asyncio.gather(self._sender, *self._calls, return_exceptions=True)
        await self._session.close()
        if self.failed:
            raise RuntimeError(f"{self.failed} requests failed")

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += self._rng.standard_exponential() / self._rate
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            call = asyncio.create_task(self._call())
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self) -> None:
        query = self._queries[int(self._rng.integers(len(self._queries)))] if self._queries else None
        body = {} if query is None else {"query": query}
        async with self._session.post(self._url, json=body) as response:
            text = await response.read()
        if response.status != HTTPStatus.OK:
            self.failed += 1
        elif query is None:
            self.answers.append(msgspec.json.decode(text)["answer"])


async def _queries(folder: Path) -> Sequence[str]:
    path = folder / "queries.txt"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.search", "queries", "-n", "4000", "-o", str(path)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    if await process.wait():
        raise RuntimeError("the search service gave no queries")
    return path.read_text().splitlines()
