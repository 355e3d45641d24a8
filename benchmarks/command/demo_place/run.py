"""Run of the demonstration by the operator's verbs: probe, classify, place, and up under changing load."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from benchmarks.command.demo_place.outcome import (
    DemoPlaceResult,
    Loss,
    PlacedArm,
    Recovery,
    ServiceOutcome,
    recovery_s,
)
from benchmarks.command.demo_place.scene import (
    BATCH,
    BATCH_PROGRAM,
    CALL_MS,
    GROWING,
    GROWTH,
    MACHINE,
    MODULE,
    PRESSED,
    SERVICES,
    ServiceLoad,
    emulated,
    loads,
    nodes_toml,
    requests_text,
    with_batch,
    workloads_toml,
)
from benchmarks.command.demo_place.traffic import FAILED_MS, ClientStream, LoadPhase, p99_ms, send
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.profile import profiles_from_json, profiles_to_json
from kwiken.allocator.workloads.workload import workloads_from_toml
from kwiken.base.errors import KwikenError
from kwiken.base.machine.processor_use import Reading, use_between
from kwiken.base.machine.reading import read_processors
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.nodes.nodes import Cluster as Nodes
from kwiken.model.nodes.placement import Placement
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.target import load_target
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.layout import Layout
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.node_classes.node_limits import NodeLimits
from kwiken.upkeep.assignment import Assignment
from kwiken.upkeep.on_nodes import clusters_on_nodes
from kwiken.upkeep.upkeep import Upkeep

SCHEDULERS: Final = ("least-loaded", "reservation", "thrifty")  # the last one is kept at its targets
CONFIDENCE: Final = 0.95
WARM_S: Final = 3.0  # of load before what counts
ARM_S: Final = 16.0  # of load that counts, by placement
AFTER_GROWTH_S: Final = 34.0  # from the growth of the load to the loss of a node
AFTER_LOSS_S: Final = 18.0  # from the loss to the end
TRY_S: Final = 0.2  # processor time of the tries that find the rounds of a call
Say = Callable[[str], None]
WAITS: Final = 3  # exit code of `kwiken place` where a workload waits; the placement is written
MAX_VERB_S: Final = 180.0  # time after which a verb is ended


async def run_verb(
    *words: str, folder: Path, say: Callable[[str], None], log: Path, allowed: tuple[int, ...] = (0,)
) -> int:
    """Run `kwiken` with some words in a folder; returns the exit code.

    Args:
        words: verb, arguments and options.
        say: told the command line.
        log: file that the verb's output is appended to.
        allowed: exit codes that are no failure.

    Raises:
        KwikenError: the verb fails, or takes longer than `MAX_VERB_S`; has the last line of its output.
    """
    say(f"$ kwiken {shlex.join(words)}")
    with log.open("ab") as output:
        start = output.tell()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kwiken", *words, cwd=folder, stdout=output, stderr=output
        )
        waiting = asyncio.create_task(process.wait())
        try:
            code = await asyncio.wait_for(asyncio.shield(waiting), MAX_VERB_S)
        except TimeoutError:
            raise KwikenError(f"kwiken {words[0]} did not end within {MAX_VERB_S:.0f} s") from None
        finally:
            if process.returncode is None:
                process.terminate()
                await waiting
            await cancel_and_wait([waiting])
    if code not in allowed:
        with log.open("rb") as output:
            output.seek(start)
            last = output.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise KwikenError(f"kwiken {words[0]} ended with exit code {code}: {last}")
    return code


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """What probe and classify found, with the documents that follow from them."""

    nodes: Nodes
    targets: Mapping[str, ServiceLoad]
    requests: Sequence[PlacementRequest]
    bodies: Mapping[str, Sequence[str]]


async def run_demo(*, seed: int, say: Say, log: Path) -> DemoPlaceResult:
    """Run the demonstration; about four minutes.

    Args:
        seed: seed of arrivals and of the choice of requests.
        say: told what happens, line by line.
        log: file that the output of verbs, gateways and replicas is appended to; the documents of the run are
            written beside it.

    Raises:
        KwikenError: a verb or a process fails.
    """
    settings = ClusterSettings(grace_s=1.0, log=log)
    prepared = await _prepare(log.parent, say, log)
    arms: list[PlacedArm] = []
    growth: Recovery | None = None
    loss: Loss | None = None
    for name in SCHEDULERS:
        await _place(name, log.parent, say, log)
        last = name == SCHEDULERS[-1]
        async with _placed(name, log.parent, prepared, settings, keep=last) as placed:
            say(f"placed by {name}, and loaded for {WARM_S + ARM_S:.0f} s by a client of its own process")
            if not last:
                arms.append(await _arm(placed, prepared, seed))
                continue
            found, growth, loss = await _kept(placed, prepared, seed, say)
            arms.append(found)
    assert growth is not None
    assert loss is not None
    return DemoPlaceResult(
        targets_ms={name: one.p99_ms for name, one in prepared.targets.items()},
        rate_per_s={name: one.rate_per_s for name, one in prepared.targets.items()},
        arms=arms,
        growth=growth,
        loss=loss,
    )


async def _prepare(folder: Path, say: Say, log: Path) -> _Prepared:
    """Probe the services and the best-effort work, classify them, and state targets."""
    measurements = folder / "measurements.toml"
    measurements.unlink(missing_ok=True)
    bodies: dict[str, list[str]] = {}
    for name, stage in SERVICES.items():
        text = requests_text(await _rounds(name, stage))
        (folder / f"{name}.jsonl").write_text(text)
        bodies[name] = text.splitlines()
    sources = [word for source in PRESSED for word in ("--source", source)]
    await run_verb(
        "probe", "machine", "--no-crosstalk", *sources, "-o", MACHINE, folder=folder, say=say, log=log
    )
    with tempfile.TemporaryDirectory() as empty:  # the services need no files of a working folder
        for name, stage in SERVICES.items():
            await run_verb(
                "probe", "stage", f"{MODULE}:{name}", "--stage", stage, "--name", name, *sources,
                "--requests", f"{name}.jsonl", "--working-folder", empty, "--machine", MACHINE,
                "-o", measurements.name,
                folder=folder, say=say, log=log,
            )  # fmt: skip
    await run_verb(
        "classify", measurements.name, "-o", "workloads-profile.json", folder=folder, say=say, log=log
    )
    profiles = folder / "workloads-profile.json"
    found = with_batch(profiles_from_json(profiles.read_bytes(), where=profiles.name))
    profiles.write_text(profiles_to_json(found))
    say(f"{BATCH} runs the program of {BATCH_PROGRAM}, and takes the predictions of {BATCH_PROGRAM}")
    targets = loads(found)
    for name, one in targets.items():
        say(f"{name}: a p99 of {one.p99_ms:.0f} ms at {one.rate_per_s:.1f} requests a second is asked for")
    (folder / "nodes.toml").write_text(nodes_toml())
    (folder / "workloads.toml").write_text(workloads_toml(targets))
    cluster = nodes_from_toml(nodes_toml(), where="nodes.toml")
    workloads = workloads_from_toml(workloads_toml(targets), where="workloads.toml")
    by_name = {profile.name: profile for profile in found}
    requests = [
        request_for(one, by_name[one.name], cluster, Caution(confidence=CONFIDENCE)) for one in workloads
    ]
    return _Prepared(nodes=cluster, targets=targets, requests=requests, bodies=bodies)


async def _rounds(service: str, stage: str) -> int:
    """Rounds of work that take `CALL_MS` of processor time on this machine, 1 or more."""
    handler: Any = load_target(f"{MODULE}:{service}")[stage].handler  # a coroutine function
    assert handler is not None
    (work,) = (kind for name, kind in get_type_hints(handler).items() if name != "return")
    rounds, spent_s = 1, 0.0
    while spent_s < TRY_S:
        rounds *= 2
        before_s = time.thread_time()
        await handler(msgspec.convert({"rounds": rounds}, work))
        spent_s = time.thread_time() - before_s
    return max(1, round(rounds * CALL_MS / 1e3 / spent_s))


async def _place(name: str, folder: Path, say: Say, log: Path) -> None:
    await run_verb(
        "place", "nodes.toml", "workloads.toml", "--profiles", "workloads-profile.json",
        "--scheduler", name, "-o", f"placement-{name}.json",
        folder=folder, say=say, log=log, allowed=(0, WAITS),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A placement that runs."""

    placement: Placement
    clusters: Mapping[str, Cluster]
    limits: NodeLimits
    said: list[tuple[float, str]]
    adaptation: Adaptation

    async def sent(
        self, prepared: _Prepared, phases: Sequence[float], seed: int
    ) -> tuple[float, dict[str, ClientStream]]:
        """Send phases of equal length, in each of which the load of `GROWING` is a factor of its target's."""
        urls = {name: f"{cluster.gateway_url}/v1/request" for name, cluster in self.clusters.items()}
        lengths = [WARM_S + ARM_S, AFTER_GROWTH_S, AFTER_LOSS_S]
        rates = [
            {name: prepared.targets[name].rate_per_s * (factor if name == GROWING else 1.0) for name in urls}
            for factor in phases
        ]
        load = [
            LoadPhase(seconds=length, rates_per_s=rate)
            for length, rate in zip(lengths[: len(rates)], rates, strict=True)
        ]
        return await send(urls, prepared.bodies, load, seed)


@contextlib.asynccontextmanager
async def _placed(
    name: str, folder: Path, prepared: _Prepared, settings: ClusterSettings, *, keep: bool
) -> AsyncIterator[_Placed]:
    """Run a placement as `kwiken up --placement` does; keep its targets as `--workloads` does, if asked."""
    path = folder / f"placement-{name}.json"
    placement = Placement.from_json(path.read_bytes(), where=path.name)
    there = emulated(prepared.nodes)
    adaptation = Adaptation(prepared.requests, prepared.nodes, placement, scheduler(name))
    assignment = Assignment(workloads={one.name: one.workload for one in prepared.requests}, nodes=there)
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
        keeping = asyncio.create_task(upkeep.run()) if keep else None
        try:
            yield _Placed(
                placement=placement,
                clusters=on_nodes.clusters,
                limits=on_nodes.limits,
                said=said,
                adaptation=adaptation,
            )
        finally:
            if keeping is not None:
                await cancel_and_wait([keeping])


def _starts(services: Iterable[str], settings: ClusterSettings) -> dict[str, Callable[[Layout], Cluster]]:
    """By service, what makes its cluster from a layout."""

    def start(service: str, layout: Layout) -> Cluster:
        return Cluster(f"{MODULE}:{service}", settings, layout=layout)

    return {service: functools.partial(start, service) for service in services}


async def _arm(placed: _Placed, prepared: _Prepared, seed: int) -> PlacedArm:
    """Load a placement that stays as it is, and judge it."""
    before = read_processors()
    start_s, streams = await placed.sent(prepared, [1.0], seed)
    return _judged(placed, prepared, start_s, streams, _busy(before))


async def _kept(
    placed: _Placed, prepared: _Prepared, seed: int, say: Say
) -> tuple[PlacedArm, Recovery, Loss]:
    """Load a placement that is kept at its targets; double a load, then lose a node."""
    readings = [read_processors()]
    sending = asyncio.create_task(placed.sent(prepared, [1.0, GROWTH, GROWTH], seed))
    try:
        await asyncio.sleep(WARM_S + ARM_S)
        readings.append(read_processors())
        say(f"the load of {GROWING} grows to {GROWTH:g} times; {AFTER_GROWTH_S:.0f} s follow")
        await asyncio.sleep(AFTER_GROWTH_S)
        readings.append(read_processors())
        node, hit = _node_to_lose(placed)
        say(f"{node}, which has replicas of {', '.join(hit)}, is lost; {AFTER_LOSS_S:.0f} s follow")
        lost_s = time.monotonic()
        await placed.limits.remove_node(node)
        start_s, streams = await sending
        readings.append(read_processors())
    finally:
        await cancel_and_wait([sending])
    grown_s = start_s + WARM_S + ARM_S
    end_s = grown_s + AFTER_GROWTH_S + AFTER_LOSS_S
    busy = [_busy(first, last) for first, last in itertools.pairwise(readings)]
    arm = _judged(placed, prepared, start_s, streams, busy[0])
    targets = {name: prepared.targets[name].p99_ms for name in streams}
    before_loss = {name: stream.between(grown_s, lost_s) for name, stream in streams.items()}
    after_loss = {name: stream.between(lost_s, end_s) for name, stream in streams.items()}
    growth = Recovery(
        recovery_s=recovery_s(streams, targets, grown_s, lost_s),
        p99_ms={name: _shown(p99_ms(found)) for name, found in before_loss.items()},
        failed=sum(found.count(FAILED_MS) for found in before_loss.values()),
        requests=sum(map(len, before_loss.values())),
        actions=[(at_s - grown_s, line) for at_s, line in placed.said if grown_s <= at_s < lost_s],
        busy=busy[1],
    )
    loss = Loss(
        node=node,
        services=hit,
        recovery_s=recovery_s(streams, targets, lost_s, end_s),
        p99_ms={name: _shown(p99_ms(found)) for name, found in after_loss.items()},
        failed=sum(found.count(FAILED_MS) for found in after_loss.values()),
        requests=sum(map(len, after_loss.values())),
        actions=[(at_s - lost_s, line) for at_s, line in placed.said if at_s >= lost_s],
        busy=busy[2],
    )
    return arm, growth, loss


def _shown(latency_ms: float) -> float | None:
    """Latency, milliseconds; None where more than one in a hundred requests failed."""
    return latency_ms if latency_ms < FAILED_MS else None


def _node_to_lose(placed: _Placed) -> tuple[str, list[str]]:
    """The node with most of the services' replicas now, and the services that it has replicas of."""
    on = [(node, name) for name in SERVICES for _, node, _ in placed.adaptation.keys[name]]
    node = Counter(name for name, _ in on).most_common(1)[0][0]
    return node, sorted({service for name, service in on if name == node})


def _judged(
    placed: _Placed, prepared: _Prepared, start_s: float, streams: Mapping[str, ClientStream], busy: float
) -> PlacedArm:
    first_s, last_s = start_s + WARM_S, start_s + WARM_S + ARM_S
    classes = {node.name: node.node_class for node in placed.placement.nodes}
    services, cores, cost, filler = [], 0.0, 0.0, 0.0
    for workload in placed.placement.workloads:
        used = sum(replica.cores for replica in workload.replicas)
        if workload.name == BATCH:
            filler = used
            continue
        cores, cost = cores + used, cost + workload.cost_per_hour
        found = streams[workload.name].between(first_s, last_s) if workload.name in streams else []
        services.append(
            ServiceOutcome(
                service=workload.name,
                status=workload.status,
                target_ms=prepared.targets[workload.name].p99_ms,
                p99_ms=_shown(p99_ms(found)),
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
        late_p99_ms=p99_ms(late) if late else 0.0,
    )


def _busy(before: Reading | None, after: Reading | None = None) -> float:
    """Share of the processors that anybody used between two readings; 1 where it cannot be read."""
    now = read_processors() if after is None else after
    if before is None or now is None:
        return 1.0
    use = use_between(before, now)
    return min(1.0, (use.own + use.taken) / use.processors)
