"""Placements with and without traffic in view, played by a process for each node, with a delay between zones.

The delay is emulated by the callers, `DELAY_MS` each way. The shop of `examples/traffic` is placed by
`kwiken place` with and without `--traffic`; requests enter at its web front at a fixed rate, and each
service calls others as often as the learned traffic says.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Row
from kwiken.base.arrays import Floats
from kwiken.model.nodes.placement import Placement
from kwiken.traffic.document import TrafficModel
from kwiken.traffic.maps import MapLevel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "traffic"
ENTRY = "web"
DELAY_MS = 50.0  # each way, between zones: large beside what a busy machine adds to a call
RATE_PER_S = 2.0
SECONDS = 45.0
SEED = 1
DRAWN = 200_000  # requests from which the expected p99 is drawn
END_S = 10.0


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    """Play both placements, and print crossings and p99 beside what the crossings alone would make of it."""
    seconds = 5.0 if quick else SECONDS
    with tempfile.TemporaryDirectory() as folder:
        model, placements = _placed(Path(folder))
    rows, measured, expected = [], [], []
    for placement in placements:
        calls = calls_per_request(model)
        with _nodes(placement, calls) as ports:
            latency_ms, crossed = asyncio.run(_load(ports, seconds))
        drawn = expected_crossings(placement, calls, DRAWN, np.random.default_rng(SEED))
        measured.append((*np.quantile(latency_ms, (0.99, 0.5)).tolist(), float(np.mean(crossed))))
        alone_ms = 2 * DELAY_MS * np.quantile(drawn, (0.99, 0.5))
        expected.append((*alone_ms.tolist(), float(drawn.mean())))
    figures = (
        ("p99 of a request", "ms"),
        ("median of a request", "ms"),
        ("calls across zones for a request", ""),
    )
    for place, (name, unit) in enumerate(figures):
        before, after = (one[place] for one in measured)
        rows.append(
            Row(
                name=f"zones: {name}, with --traffic",
                ours=after,
                unit=unit,
                target=before,
                alternative="placed by cost alone",
                theirs=before,
                ratio=before / after,
            )
        )
        told = [one[place] for one in expected]
        rows.append(
            Row(
                name=f"zones: {name}, expected from crossings alone",
                ours=told[1],
                unit=unit,
                alternative="placed by cost alone",
                theirs=told[0],
                ratio=told[0] / told[1],
            )
        )
    return rows


def _placed(folder: Path) -> tuple[TrafficModel, list[Placement]]:
    """The example's traffic model, and its placements by cost alone and with the traffic in view."""
    traffic, profiles = folder / "traffic.json", folder / "profiles.json"
    nodes, workloads = EXAMPLE / "nodes.toml", EXAMPLE / "workloads.toml"
    _kwiken("traffic", "fit", EXAMPLE / "flows.jsonl", "-o", traffic)
    _kwiken("classify", EXAMPLE / "measurements.toml", "-o", profiles)
    found = []
    for number, more in enumerate(((), ("--traffic", traffic))):
        out = folder / f"{number}.json"
        _kwiken("place", nodes, workloads, "--profiles", profiles, *more, "-o", out)
        found.append(Placement.from_json(out.read_text(), where=str(out)))
    return TrafficModel.from_json(traffic.read_text(), where=str(traffic)), found


def _kwiken(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "kwiken", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


def calls_per_request(model: TrafficModel) -> dict[str, dict[str, float]]:
    """Mean number of calls of each callee that a service makes for each call that it gets."""
    found = model.traffic_map(MapLevel.SERVICE)
    traffic = found.dense()
    asked = traffic.sum(axis=0)
    asked[asked == 0] = traffic.sum(axis=1)[asked == 0] / 3  # requests of the entry call three services each
    return {
        name: {
            callee: float(traffic[row, column] / asked[row])
            for column, callee in enumerate(found.names)
            if traffic[row, column] > 0
        }
        for row, name in enumerate(found.names)
    }


def shares(placement: Placement) -> dict[str, list[tuple[str, str, float]]]:
    """Node, zone and share of the calls of each replica, by workload; by cores, which stand for its rate."""
    zone = {node.name: node.zone for node in placement.nodes}
    return {
        one.name: [
            (each.node, zone[each.node], each.cores / sum(other.cores for other in one.replicas))
            for each in one.replicas
        ]
        for one in placement.workloads
    }


def expected_crossings(
    placement: Placement, calls: dict[str, dict[str, float]], count: int, rng: np.random.Generator
) -> Floats:
    """(count,) calls across zones of drawn requests at the entry, all of one request in turn."""
    by_zone = {}
    for name, replicas in shares(placement).items():
        zones: dict[str, float] = {}
        for _, zone, share in replicas:
            zones[zone] = zones.get(zone, 0.0) + share
        by_zone[name] = zones
    names = sorted({zone for zones in by_zone.values() for zone in zones})
    total = np.zeros(count)

    def follow(service: str, request: np.ndarray, zone: np.ndarray) -> None:
        for callee, mean in calls.get(service, {}).items():
            number = int(mean) + (rng.random(len(request)) < mean % 1)
            below = np.repeat(np.arange(len(request)), number)
            if not len(below):
                continue
            weights = [by_zone[callee].get(name, 0.0) for name in names]
            there = rng.choice(len(names), size=len(below), p=np.array(weights) / sum(weights))
            np.add.at(total, request[below], there != zone[below])
            follow(callee, request[below], there)

    weights = [by_zone[ENTRY].get(name, 0.0) for name in names]
    start = rng.choice(len(names), size=count, p=np.array(weights) / sum(weights))
    follow(ENTRY, np.arange(count), start)
    return total


@contextmanager
def _nodes(placement: Placement, calls: dict[str, dict[str, float]]) -> Iterator[list[tuple[int, float]]]:
    """Start a process for each node that has replicas; yields ports and shares of the entry's replicas."""
    placed = shares(placement)
    names: dict[str, list[str]] = {}
    for name, replicas in placed.items():
        for node, _, _ in replicas:
            names.setdefault(node, []).append(name)
    zone = {node.name: node.zone for node in placement.nodes}
    with ExitStack() as stack:
        processes, ports = {}, {}
        for node, services in names.items():
            command = [sys.executable, "-m", "benchmarks.load.zone_node", json.dumps(services)]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(_end, process)
            processes[node] = process
        for node, process in processes.items():
            found = json.loads(_line(process))
            ports.update({(node, name): port for name, port in zip(names[node], found, strict=True)})
        table: dict[str, list[dict[str, Any]]] = {
            name: [{"port": ports[node, name], "zone": where, "share": share} for node, where, share in some]
            for name, some in placed.items()
        }
        for number, (node, process) in enumerate(processes.items()):
            order = {"zone": zone[node], "delay_s": DELAY_MS / 1e3, "calls": calls, "replicas": table}
            assert process.stdin is not None
            process.stdin.write(json.dumps(order | {"seed": SEED + number}) + "\n")
            process.stdin.flush()
        for process in processes.values():
            assert _line(process).strip() == "ready"
        yield [(each["port"], each["share"]) for each in table[ENTRY]]


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _end(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()


async def _load(ports: list[tuple[int, float]], seconds: float) -> tuple[Floats, Floats]:
    """Latencies, ms, and calls across zones of requests at a fixed rate, whatever their latency."""
    rng = np.random.default_rng(SEED)
    count = int(seconds * RATE_PER_S)
    share = np.array([each for _, each in ports])
    chosen = rng.choice(len(ports), size=count, p=share / share.sum())

    async def one(number: int, due: float) -> tuple[float, int]:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[chosen[number]][0])
        writer.write(b"\n")
        crossed = int(await reader.readline())
        writer.close()
        return 1e3 * (time.perf_counter() - due), crossed

    begin = time.perf_counter() + 0.1
    found: list[Any] = await asyncio.gather(*(one(k, begin + k / RATE_PER_S) for k in range(count)))
    columns = np.array(found, np.float64)
    return columns[:, 0], columns[:, 1]
