"""One run of one way: replicas, the program between, the client; and settings for a wanted extra load."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.gateway.peers.proxies import envoy, gateway, stopped
from benchmarks.gateway.peers.world import RATE_PER_S, REPLICAS, STAGES, WARM_S
from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import VERSION, Budgets, Costs, Plan, SpanMatch, StagePlan
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

PLAIN, PLAIN_GRPC = "plain", "plain gRPC"
HEDGE_PYTHON, HTTPX_HEDGED, LIBRARY = "hedge-python", "httpx-hedged", "kwiken.hedge"
ENVOY, ENVOY_PLANNED, GATEWAY = "Envoy", "Envoy, delays of the plan", "kwiken gateway"
RETRIES, GATEWAY_GRPC = "gRPC retries", "kwiken gateway, gRPC"
TARGET: Final = 0.05  # extra load that every way is set for, and the budget of the libraries
NEAR: Final = 0.004  # between an extra load and the target, with which a knob is left as it is
MIN_SHARE, MAX_SHARE = 0.005, 0.25  # share that the knob of a way may be set to
AMPLE: Final = 0.3  # budget under which the delay alone decides
FINISH_S: Final = 180.0  # for a client to end, on a machine that others keep busy


@dataclass(frozen=True)
class Taken:
    """Figures of one run.

    Attributes:
        latency_ms: (n,) latencies of the requests that were answered, from when they were due.
        lost: share of the requests that failed or had no answer in time.
        extra: calls that replicas worked on beyond one for each stage of a request, as a share of those.
        processor_ms: processor time for each request of all processes but the replicas', milliseconds.
        between_ms: the part of the program between client and replicas, milliseconds; 0 without one.
        calls_ms: by stage: (m,) time of the calls of requests that were answered, where the client makes
            the calls.
    """

    latency_ms: Floats
    lost: float
    extra: float
    processor_ms: float
    between_ms: float
    calls_ms: Mapping[str, Floats]

    @property
    def p99_ms(self) -> float:
        """99th percentile of the latency of answered requests, milliseconds."""
        return float(np.quantile(self.latency_ms, 0.99))


@dataclass
class Knob:
    """Setting of a way: the share of all calls that are to get a copy, and what the way learned before.

    Attributes:
        share: the libraries learn the delay that so many calls exceed; Envoy gets the delay that so many
            calls of each stage exceeded in the record; a plan gets it as its budget.
        record: run without copies, by which Envoy's delays and kwiken's plan are made.
        tried: shares that were tried before, each with the extra load that came of it.
    """

    share: float
    record: Taken | None = None
    tried: list[tuple[float, float]] = field(default_factory=list)

    def after_ms(self, way: str) -> dict[str, float]:
        """Delay of each stage that gets copies, for Envoy."""
        if self.record is None:
            return {}
        if way == ENVOY_PLANNED:
            found = {name: stage.reissue for name, stage in self.plan().stages.items()}
            return {name: reissue.after_ms for name, reissue in found.items() if reissue is not None}
        return {
            name: float(np.quantile(calls, 1 - self.share)) for name, calls in self.record.calls_ms.items()
        }

    def plan(self) -> Plan:
        """Plan of kwiken with the share as its budget, from the record."""
        assert self.record is not None
        calls = self.record.calls_ms
        profile = Profile(
            service="peers",
            stages=tuple(
                StageProfile(
                    name=name,
                    after=STAGES[place - 1 : place] if place else (),
                    match=SpanMatch(service=name, operation=f"GET /{name}", method="GET", path=f"/{name}"),
                    calls_ms=calls[name][:, None],
                    censored=np.zeros((len(calls[name]), 1), dtype=np.bool_),
                )
                for place, name in enumerate(STAGES)
            ),
            latency_ms=np.sum([calls[name] for name in STAGES], axis=0),
            started_s=np.arange(len(calls[STAGES[0]])) / RATE_PER_S,
        )
        return study_plan(profile, PlanSettings(budgets=Budgets(reissue=self.share), created="")).plan

    def turn(self, extra: float) -> bool:
        """Set the share anew by the extra loads that came of the shares tried; False once it is near enough.

        Between a share with too little extra load and one with too much the next lies on the line through
        both. With all on one side, the last one is scaled, by a factor of two at most.
        """
        self.tried.append((self.share, extra))
        if abs(extra - TARGET) <= NEAR:
            return False
        below = max((one for one in self.tried if one[1] < TARGET), default=None)
        above = min((one for one in self.tried if one[1] >= TARGET), default=None)
        if below is not None and above is not None and below[0] < above[0]:
            part = (TARGET - below[1]) / (above[1] - below[1])
            self.share = below[0] + part * (above[0] - below[0])
        else:
            factor = min(2.0, max(0.5, TARGET / max(extra, 1e-6)))
            self.share = min(MAX_SHARE, max(MIN_SHARE, self.share * factor))
        return True


class FixedDelay(Knob):
    """Setting of Envoy and of the gateway: the share of calls of the record that are older than the delay."""

    def plan(self) -> Plan:
        """Plan with the same delays as Envoy's, and a budget that denies no copy."""
        after_ms = self.after_ms(ENVOY)
        return Plan(
            version=VERSION,
            service="peers",
            created="",
            profile="",
            budgets=Budgets(reissue=AMPLE),
            cost=Costs(model="calls", stages=dict.fromkeys(after_ms, 1 / len(after_ms))),
            stages={
                name: StagePlan(reissue=Reissue(after_ms=delay, fraction=AMPLE))
                for name, delay in after_ms.items()
            },
        )


async def take(
    way: str,
    knob: Knob,
    seed: int,
    seconds: float,
    folder: Path,
    *,
    stages: tuple[str, ...] = STAGES,
    rate_per_s: float = RATE_PER_S,
) -> Taken:
    """Run one way for a while; replicas and programs start anew, so that none knows of earlier runs.

    Args:
        stages: those that a request calls, one after another.
        rate_per_s: requests a second.
    """
    protocol = "grpc" if "gRPC" in way else "http"
    words = ["-m", "benchmarks.gateway.peers.replicas", protocol, str(seed)]
    pipe = asyncio.subprocess.PIPE
    served = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
    assert served.stdin is not None
    assert served.stdout is not None
    async with stopped(served):
        ports = [f"127.0.0.1:{port}" for port in (await served.stdout.readline()).decode().split()]
        addresses = {
            name: ports[place * REPLICAS : (place + 1) * REPLICAS]
            for place, name in enumerate(STAGES)
            if name in stages
        }
        settings: dict[str, Any] = {
            "way": way,
            "addresses": addresses,
            "share": knob.share,
            "budget": TARGET,
            "seed": seed,
            "seconds": seconds,
            "rate_per_s": rate_per_s,
            "pids": [],
        }
        async with _between(way, knob, addresses, folder) as found:
            told = await _client(settings | found, seconds)
        served.stdin.close()
        counts = json.loads(await served.stdout.read())
        await served.wait()
    return Taken(
        latency_ms=np.asarray(told["latency_ms"]),
        lost=told["lost"] / told["sent"],
        extra=(counts["asked"] - counts["needed"]) / counts["needed"],
        processor_ms=1e3 * (told["own_s"] + told["between_s"]) / told["sent"],
        between_ms=1e3 * told["between_s"] / told["sent"],
        calls_ms={
            name: np.array([took[name] for took in told["calls_ms"]]) for name in stages if told["calls_ms"]
        },
    )


@contextlib.asynccontextmanager
async def _between(
    way: str, knob: Knob, addresses: Mapping[str, list[str]], folder: Path
) -> AsyncIterator[dict[str, Any]]:
    """What stands between client and replicas; yields what the client needs to know of it."""
    plan = folder / "plan.json"
    if way in {LIBRARY, GATEWAY, GATEWAY_GRPC}:
        plan.write_text(knob.plan().to_json(), encoding="utf-8")
    if way in {ENVOY, ENVOY_PLANNED}:
        async with envoy(addresses, knob.after_ms(way), folder) as (url, pid):
            yield {"url": url, "pids": [pid]}
    elif way in {GATEWAY, GATEWAY_GRPC}:
        async with gateway(addresses, str(plan), folder, over_grpc=way == GATEWAY_GRPC) as (url, pid):
            yield {"url": url, "pids": [pid]}
    else:
        yield {"plan": str(plan)} if way == LIBRARY else {}


async def _client(settings: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    pipe = asyncio.subprocess.PIPE
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.gateway.peers.client"), stdin=pipe, stdout=pipe
    )
    async with stopped(client), asyncio.timeout(WARM_S + seconds + FINISH_S):
        text, _ = await client.communicate(json.dumps(settings).encode())
    found: dict[str, Any] = json.loads(text)
    return found
