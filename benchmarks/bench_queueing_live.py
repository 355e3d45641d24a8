"""What the queueing simulator says of a running service, beside what is measured: p99 at three loads.

One load is learned from, without a plan, and a plan is made. Then that load goes on in short blocks, in turns
with blocks of each load without and with the plan, so that it is learned all the time. The profile of the
former predicts p99 of the latter, which is read from the gateway's spans. So what is learned and what is
judged share the machine's moods, but no request; and of the races of the latter the former knows nothing.

`queued` has queues and nothing else, so it tests the simulator and the runtime's rules. `search` burns
processors of a machine that all its processes share; how much of it all of them used while it was learned,
and before the first request came, is measured and simulated. `demo` is the same with the demo's pauses, which
make its tail: in each round every block has the same ones.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Self, TypedDict

import aiohttp
import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import Row
from cli.demo import Disturber, Flaky, choose
from kwiken import Budgets, Plan, Profile, make_plan, part_of
from kwiken.queueing import Cancel, LoadModel, load_model, simulate_load
from otel import fit_profile
from runtime import Cluster

BUDGET = 0.05
TARGET_OFF = 10.0  # percent
SETTLE_S = 1.0  # after a switch of plans
FLUSH_S = 2.5  # the sink writes about once a second
IDLE_S = 10.0  # without a request
SIMULATED = 60_000  # another seed moves p99 by some 2%
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
        queries: whether the service asks for queries, and burns processors. The other answers how long its
            stages held their replicas, which stands for the busy times in the spans.
        disturbed: whether replicas are paused as in the demo.
        rounds: how often every load and arm gets a block.
    """

    target: str
    rate: float
    factors: tuple[float, ...]
    cancel: Cancel
    queries: bool = False
    disturbed: bool = False
    rounds: int = 5


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
        rounds=16,  # the slowest 1% come in groups: in half as many rounds there are 10 to 16 of them
    ),
}


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    learn_s, block_s = (8.0, 4.0) if quick else (60.0, 10.0)
    rows = []
    for name, case in CASES.items():
        rounds = 1 if quick else case.rounds
        rows += asyncio.run(_Trial(name, case, learn_s, block_s, rounds).rows())
    return rows


class _Trial:
    """One service, live.

    Args:
        name: of the case.
        case: which.
        learn_s: seconds of requests that the plan is made from.
        block_s: seconds of a block at the load that is learned from; longer at a lower one, for as many
            requests.
        rounds: how often every load and arm gets a block, and what is learned from one for each load.
    """

    def __init__(self, name: str, case: Case, learn_s: float, block_s: float, rounds: int) -> None:
        self._name, self._case = name, case
        self._learn_s, self._block_s, self._rounds = learn_s, block_s, rounds

    async def rows(self) -> list[Row]:
        with tempfile.TemporaryDirectory(prefix="kwiken-bench-") as scratch:
            folder = Path(scratch)
            self._traces = folder / "traces"
            self._queries = await _queries(folder) if self._case.queries else ()
            async with Cluster(self._case.target, traces=self._traces) as cluster:
                replicas = (await cluster.status())["replicas"]
                flaky = choose(replicas, SEED) if self._case.disturbed else {}
                self._idle_use = await _idle_use() if self._case.queries else 0.0
                async with _Load(cluster.gateway_url, self._case.rate, self._queries) as load:
                    async with Disturber(flaky, SEED):
                        plan = await self._plan(load)
                    blocks = await self._blocks(cluster, load, plan, flaky)
                await cluster.put_plan(None)
            return self._compared(plan, blocks, load)

    async def _plan(self, load: _Load) -> Plan:
        """A plan from some time without one."""
        await asyncio.sleep(2 * SETTLE_S)
        since = time.time()
        await asyncio.sleep(self._learn_s)
        until = time.time()
        await asyncio.sleep(FLUSH_S)

        def planned() -> Plan:
            profile = self._with_work(fit_profile([self._traces], since_s=since, until_s=until), load)
            return make_plan(profile, budgets=Budgets(reissue=BUDGET), created=CREATED)

        return await asyncio.to_thread(planned)  # the load goes on meanwhile

    async def _blocks(
        self, cluster: Cluster, load: _Load, plan: Plan, flaky: Mapping[str, Flaky]
    ) -> list[_Block]:
        """The loads, the arms and what is learned from, in turns: a machine's moods strike all alike."""
        kinds = [
            kind
            for factor in self._case.factors
            for kind in ((1.0, LEARNED), *((factor, arm) for arm in ARMS))
        ]
        blocks = []
        for number in range(self._rounds):
            order = kinds if number % 2 == 0 else kinds[::-1]
            for factor, arm in order:
                load.rate = self._case.rate * factor
                await cluster.put_plan(plan if arm == "after" else None)
                async with Disturber(flaky, number):
                    await asyncio.sleep(SETTLE_S)
                    since, used = time.time(), _processor_times()
                    await asyncio.sleep(self._block_s / min(1.0, factor))
                    use = _share_used(used, _processor_times())
                    blocks.append(_Block(factor, arm, since, time.time(), use))
        await asyncio.sleep(FLUSH_S)
        return blocks

    def _with_work(self, profile: Profile, load: _Load) -> Profile:
        """How long stages held their replicas, from the answers of a service that tells it there."""
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

    def _compared(self, plan: Plan, blocks: Sequence[_Block], load: _Load) -> list[Row]:
        whole = fit_profile([self._traces], since_s=blocks[0].since_s, until_s=blocks[-1].until_s)
        unraced = (replace(stage, pairs_ms=None, pairs_cut=None) for stage in whole.stages)
        calm = part_of(replace(whole, stages=tuple(unraced)), _rows(whole, blocks, 1.0, LEARNED))
        learned = self._with_work(calm, load)
        model = load_model(
            learned, rate_per_s=self._case.rate, cancel=self._case.cancel, **self._processors(blocks)
        )
        rows = []
        for factor in self._case.factors:
            said = simulate_load(model, plan, factor=factor, requests=SIMULATED)
            busiest = max(stage.busy_at(factor) for stage in model.stages.values())
            rows += self._use(blocks, model, factor)
            for arm, latency_ms in zip(ARMS, (said.before_ms, said.after_ms), strict=True):
                label = f"{self._name}, {factor:g} times the load ({busiest:.0%} busy), {arm}"
                measured = whole.latency_ms[_rows(whole, blocks, factor, arm)]
                rows.append(_row(label, latency_ms, measured))
        return rows

    def _use(self, blocks: Sequence[_Block], model: LoadModel, factor: float) -> list[Row]:
        """How far the processors' use without a plan was off; nothing where nobody shares them."""
        used = _uses(blocks, factor, "before")
        if model.shared is None or not used:
            return []
        said, seen = model.shared.busy_at(self._case.rate * factor), float(np.mean(used))
        return [
            Row(
                name=f"processors' use of {self._name}, {factor:g} times the load: "
                f"predicted {said:.1%}, measured {seen:.1%}",
                ours=abs(said / seen - 1) * 100,
                target=TARGET_OFF,
                unit="% off",
                alternative=f"{len(used)} blocks: {min(used):.1%} to {max(used):.1%}",
            )
        ]

    def _processors(self, blocks: Sequence[_Block]) -> _Processors:
        """This machine's, and how much of them was used while it was learned."""
        used = _uses(blocks, 1.0, LEARNED)
        if not (self._case.queries and used):
            return {}
        use = float(np.mean(used))
        idle_use = self._idle_use if self._idle_use < use else 0.0  # else something else ran just then
        return {"processors": os.cpu_count(), "processor_use": use, "idle_use": idle_use}


class _Processors(TypedDict, total=False):
    """What `load_model` wants to know of a machine."""

    processors: int | None
    processor_use: float
    idle_use: float


async def _idle_use() -> float:
    """Share of the processors' time that is used while no request comes; 0 where nobody says."""
    await asyncio.sleep(IDLE_S)  # what a start leaves to do
    before = _processor_times()
    await asyncio.sleep(IDLE_S)
    return _share_used(before, _processor_times()) or 0.0


def _processor_times() -> tuple[int, int] | None:
    """Time that all processors were used, and all of their time, in ticks; None where nobody says."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    ticks = [int(word) for word in words[1:9]]  # user nice system idle iowait irq softirq steal
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def _share_used(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    if before is None or after is None:
        return None
    return (after[0] - before[0]) / max(1, after[1] - before[1])


LEARNED = "learned"
ARMS = ("before", "after")


@dataclass(frozen=True)
class _Block:
    """Some seconds of one load and arm, and the share of the processors' time that was used in them."""

    factor: float
    arm: str
    since_s: float
    until_s: float
    use: float | None


def _uses(blocks: Sequence[_Block], factor: float, arm: str) -> list[float]:
    """Shares of the processors' time that were used in the blocks of a load and arm, where they are known."""
    mine = [block for block in blocks if (block.factor, block.arm) == (factor, arm)]
    return [block.use for block in mine if block.use is not None]


def _rows(profile: Profile, blocks: Sequence[_Block], factor: float, arm: str) -> NDArray[np.int64]:
    """(m,): numbers of the requests that started in the blocks of a load and arm."""
    found = np.zeros(profile.requests, np.bool_)
    for block in blocks:
        if (block.factor, block.arm) == (factor, arm):
            found |= (profile.started_s >= block.since_s) & (profile.started_s < block.until_s)
    return np.flatnonzero(found)


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
        rate: requests a second; may be set anew at any time.
        queries: lines to draw from; none for empty requests.
    """

    def __init__(self, url: str, rate: float, queries: Sequence[str]) -> None:
        self._url, self.rate, self._queries = f"{url}/v1/request", rate, queries
        self._rng = np.random.default_rng()
        self._calls: set[asyncio.Task[None]] = set()
        self.answers: list[dict[str, float]] = []
        self.failed = 0

    async def __aenter__(self) -> Self:
        gc.collect()
        gc.freeze()  # a full collection would hold all requests that are due meanwhile
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._sender = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sender.cancel()
        await asyncio.gather(self._sender, *self._calls, return_exceptions=True)
        await self._session.close()
        gc.unfreeze()
        if self.failed:
            raise RuntimeError(f"{self.failed} requests failed")

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += self._rng.standard_exponential() / self.rate
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
