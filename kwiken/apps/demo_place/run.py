"""Run of the demonstration: measure, place by several schedulers, load each placement, then lose a node."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwiken.allocator.adaptation import Adaptation
from kwiken.allocator.placement import NodeLedger, Placement, admit_all, document
from kwiken.allocator.placement.schedulers import scheduler
from kwiken.apps.demo_place.scene import (
    BATCH,
    CONFIDENCE,
    MODULE,
    SERVICES,
    SMALL,
    nodes,
    played,
    rate_per_s,
    requests,
    target_ms,
)
from kwiken.apps.demo_place.traffic import FAILED_MS, LoadStream, p99_ms, send, time_of_call
from kwiken.base.machine import Reading, read_processors, use_between
from kwiken.runtime.base.tasks import cancel_and_wait
from kwiken.runtime.cluster import Cluster, ClusterSettings, Layout, ReplicaPlace
from kwiken.runtime.node_classes import NodeLimits
from kwiken.runtime.upkeep import Assignment, Upkeep, clusters_on_nodes

SCHEDULERS: Final = ("least-loaded", "reservation", "thrifty")  # the last one stays up and loses a node
CALL_S: Final = 0.045  # wanted time of one call on a small replica
FIRST_ROUNDS: Final = 40
TRIES: Final = 3  # to find the rounds: a part of the time does not depend on them
TRY_S: Final = 0.8
MEASURE_S: Final = 3.0
WARM_S: Final = 3.0  # of load before what counts
ARM_S: Final = 14.0
AFTER_LOSS_S: Final = 25.0
STEP_S: Final = 0.5  # of the time to recovery
STEADY_S: Final = 8.0  # least time for which targets must be kept to count as kept again
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class ServiceOutcome:
    """One service under one placement.

    Attributes:
        target_ms: largest p99 latency, milliseconds.
        p99_ms: p99 latency, milliseconds; None where the service had no room, or where more than one in a
            hundred requests failed.
    """

    service: str
    target_ms: float
    p99_ms: float | None
    requests: int
    failed: int
    replicas: int
    nodes: list[str]

    @property
    def met(self) -> bool:
        """Whether the target was kept."""
        return self.p99_ms is not None and self.p99_ms <= self.target_ms


@dataclass(frozen=True, kw_only=True)
class PlacedArm:
    """One placement under load.

    Attributes:
        cores: number of cores of the services' replicas.
        cost_per_hour: cost of those replicas in an hour.
        best_effort_cores: number of cores of best-effort work.
        busy: share of the machine's processors in use, by anybody, 0 to 1.
        late_p99_ms: p99 of the delay with which requests were sent, milliseconds.
    """

    scheduler: str
    services: list[ServiceOutcome]
    cores: float
    cost_per_hour: float
    best_effort_cores: float
    busy: float
    late_p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What followed the loss of a node.

    Attributes:
        kept_again_s: time until every target was kept again, seconds; None if that was not seen.
        failed: number of requests that failed in that phase.
        actions: actions with their reasons, each after its moment in seconds since the loss.
        busy: share of the machine's processors in use, by anybody, 0 to 1.
    """

    node: str
    services: list[str]
    kept_again_s: float | None
    failed: int
    requests: int
    actions: list[tuple[float, str]]
    busy: float


@dataclass(frozen=True, kw_only=True)
class DemoPlaceResult:
    """Result of the demonstration.

    Attributes:
        call_ms: time of one call on a small replica on a quick node, by service, milliseconds.
        arms: placements in the order in which they ran.
        loss: what followed the loss of a node, under the last placement.
    """

    call_ms: dict[str, float]
    rate_per_s: dict[str, float]
    arms: list[PlacedArm]
    loss: Loss


async def run_demo(*, seed: int, say: Say, log: Path) -> DemoPlaceResult:
    """Run the demonstration; about two and a half minutes.

    Args:
        say: told what happens, line by line.
        log: file that the log lines of gateways and replicas are appended to.
    """
    chance = random.Random(seed)  # noqa: S311 - a load, not a secret
    settings = ClusterSettings(grace_s=1.0, log=log)
    rounds, call_s = await _measure(say, settings)
    for name, seconds in call_s.items():
        say(
            f"{name}: a call takes {1e3 * seconds:.0f} ms on a small replica on a quick node; the target is "
            f"a p99 of {target_ms(seconds):.0f} ms at {rate_per_s(seconds):.1f} requests a second"
        )
    arms: list[PlacedArm] = []
    loss: Loss | None = None
    for name in SCHEDULERS:
        async with _placed(name, call_s, settings) as placed:
            say(f"placed by {name}, and loaded for {WARM_S + ARM_S:.0f} s")
            streams = placed.streams(rounds, call_s)
            arms.append(await _arm(placed, streams, call_s, chance))
            if name == SCHEDULERS[-1]:
                loss = await _lose(placed, streams, call_s, chance, say)
    assert loss is not None
    rates = {name: rate_per_s(seconds) for name, seconds in call_s.items()}
    return DemoPlaceResult(
        call_ms={name: 1e3 * seconds for name, seconds in call_s.items()},
        rate_per_s=rates,
        arms=arms,
        loss=loss,
    )


async def _measure(say: Say, settings: ClusterSettings) -> tuple[dict[str, int], dict[str, float]]:
    """Rounds of work of a call, and its time on a small replica on a quick node, seconds, by service."""
    there = played()
    quick = [name for name, node in there.items() if node.node_class == "quick"][: len(SERVICES)]
    places = dict(zip(SERVICES, quick, strict=True))
    rounds: dict[str, int] = {}
    call_s: dict[str, float] = {}

    async def one(service: str, cluster: Cluster) -> None:
        url = cluster.gateway_url + "/v1/request"
        rounds[service] = FIRST_ROUNDS
        for _ in range(TRIES):
            factor = CALL_S / await time_of_call(url, rounds[service], TRY_S)
            rounds[service] = max(1, round(rounds[service] * factor))
        call_s[service] = await time_of_call(url, rounds[service], MEASURE_S)

    replicas = {name: {SERVICES[name]: [ReplicaPlace(node, SMALL)]} for name, node in places.items()}
    async with clusters_on_nodes(
        _starts(places, settings), {name: there[name] for name in quick}, replicas
    ) as on_nodes:
        counts = Counter(node.node_class for node in there.values())
        told = " and ".join(f"{count} {name}" for name, count in counts.items())
        say(f"this machine emulates {told} nodes, by {on_nodes.limits.method.value}")
        say("measuring what one call of each service takes")
        await asyncio.gather(*(one(service, cluster) for service, cluster in on_nodes.clusters.items()))
    order = list(SERVICES)
    return {name: rounds[name] for name in order}, {name: call_s[name] for name in order}


def _starts(services: Iterable[str], settings: ClusterSettings) -> dict[str, Callable[[Layout], Cluster]]:
    """By service, what makes its cluster from a layout."""

    def start(service: str, layout: Layout) -> Cluster:
        return Cluster(f"{MODULE}:{service}", settings, layout=layout)

    return {service: functools.partial(start, service) for service in services}


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A placement that runs."""

    placement: Placement
    clusters: Mapping[str, Cluster]
    limits: NodeLimits
    said: list[tuple[float, str]]

    def streams(self, rounds: Mapping[str, int], call_s: Mapping[str, float]) -> dict[str, LoadStream]:
        return {
            name: LoadStream(cluster.gateway_url + "/v1/request", rounds[name], rate_per_s(call_s[name]))
            for name, cluster in self.clusters.items()
        }


@contextlib.asynccontextmanager
async def _placed(
    name: str, call_s: Mapping[str, float], settings: ClusterSettings
) -> AsyncIterator[_Placed]:
    """Place by a scheduler, and run the placement; the last scheduler's is kept at its targets."""
    cluster, there = nodes(), played()
    asked = requests(call_s, cluster)
    admissions = admit_all(asked, NodeLedger(cluster), scheduler(name))
    placement = document(cluster, admissions, scheduler=name, confidence=CONFIDENCE)
    adaptation = Adaptation(asked, cluster, placement, scheduler(name))
    assignment = Assignment(workloads={one.name: one.workload for one in asked}, nodes=there)
    said: list[tuple[float, str]] = []
    replicas = {service: assignment.replicas(service, adaptation.keys) for service in SERVICES}
    with_room = [service for service, places in replicas.items() if places.get(SERVICES[service])]
    async with clusters_on_nodes(_starts(with_room, settings), there, replicas) as on_nodes:
        upkeep = Upkeep(
            adaptation,
            assignment,
            on_nodes.clusters,
            on_nodes.limits,
            say=lambda line: said.append((time.monotonic(), line)),
        )
        await upkeep.start_best_effort()
        keeping = asyncio.create_task(upkeep.run()) if name == SCHEDULERS[-1] else None
        try:
            yield _Placed(placement=placement, clusters=on_nodes.clusters, limits=on_nodes.limits, said=said)
        finally:
            if keeping is not None:
                await cancel_and_wait([keeping])


async def _arm(
    placed: _Placed, streams: Mapping[str, LoadStream], call_s: Mapping[str, float], chance: random.Random
) -> PlacedArm:
    """Load a placement, and judge it."""
    before, start_s = read_processors(), time.monotonic()
    await send(streams.values(), WARM_S + ARM_S, chance)
    busy = _busy(before)
    first_s, last_s = start_s + WARM_S, start_s + WARM_S + ARM_S
    classes = {node.name: node.node_class for node in placed.placement.nodes}
    services, cores, cost, filler = [], 0.0, 0.0, 0.0
    for workload in placed.placement.workloads:
        used = sum(replica.cores for replica in workload.replicas)
        if workload.name == BATCH:
            filler = used
            continue
        cores, cost = cores + used, cost + workload.cost_per_hour
        there = workload.name in streams
        found = streams[workload.name].between(first_s, last_s) if there else []
        p99 = p99_ms(found)
        services.append(
            ServiceOutcome(
                service=workload.name,
                target_ms=target_ms(call_s[workload.name]),
                p99_ms=p99 if p99 < FAILED_MS else None,
                requests=len(found),
                failed=found.count(FAILED_MS),
                replicas=len(workload.replicas),
                nodes=[f"{replica.node} ({classes[replica.node]})" for replica in workload.replicas],
            )
        )
    late = [delay for stream in streams.values() for delay in stream.late_ms]
    return PlacedArm(
        scheduler=placed.placement.scheduler,
        services=services,
        cores=cores,
        cost_per_hour=cost,
        best_effort_cores=filler,
        busy=busy,
        late_p99_ms=p99_ms(late),
    )


async def _lose(
    placed: _Placed,
    streams: Mapping[str, LoadStream],
    call_s: Mapping[str, float],
    chance: random.Random,
    say: Say,
) -> Loss:
    """Kill every process of the node with most of the services' replicas, under load."""
    on = [
        (replica.node, workload.name)
        for workload in placed.placement.workloads
        if workload.name != BATCH
        for replica in workload.replicas
    ]
    node = max((name for name, _ in on), key=[name for name, _ in on].count)
    hit = sorted({service for name, service in on if name == node})
    before, told = read_processors(), len(placed.said)
    lost_s = time.monotonic()
    say(f"{node}, which has replicas of {', '.join(hit)}, is stopped; {AFTER_LOSS_S:.0f} s of load follow")
    async with asyncio.TaskGroup() as group:
        group.create_task(send(streams.values(), AFTER_LOSS_S, chance))
        group.create_task(placed.limits.remove_node(node))
    last_s = lost_s + AFTER_LOSS_S
    found = [latency for stream in streams.values() for latency in stream.between(lost_s, last_s)]
    return Loss(
        node=node,
        services=hit,
        kept_again_s=kept_again_s(streams, call_s, lost_s, last_s),
        failed=found.count(FAILED_MS),
        requests=len(found),
        actions=[(at_s - lost_s, line) for at_s, line in placed.said[told:]],
        busy=_busy(before),
    )


def kept_again_s(
    streams: Mapping[str, LoadStream], call_s: Mapping[str, float], lost_s: float, last_s: float
) -> float | None:
    """Time from a loss after which every target is kept to the end, seconds; None if too short to tell.

    Args:
        call_s: time of one call by service, seconds, from which the targets come.
        lost_s: moment of the loss, seconds.
        last_s: moment of the last request, seconds.
    """
    steps = int((last_s - STEADY_S - lost_s) / STEP_S)
    for step in range(steps + 1):
        from_s = lost_s + step * STEP_S
        if all(
            p99_ms(stream.between(from_s, last_s)) <= target_ms(call_s[name])
            for name, stream in streams.items()
        ):
            return step * STEP_S
    return None


def _busy(before: Reading | None) -> float:
    """Share of the processors that anybody used since a reading; 1 where it cannot be read."""
    now = read_processors()
    if before is None or now is None:
        return 1.0
    use = use_between(before, now)
    return min(1.0, (use.own + use.taken) / use.processors)
