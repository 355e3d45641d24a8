"""Costs of each stage: milliseconds per call over a mix of queries, and start-up time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kwiken.base.errors import KwikenError
from kwiken.model.service import Service
from kwiken.services.search.measures import local

WARM_UP_QUERIES = 50
_LOAD = """
import json, sys, time
def memory():
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return 0.0
begin = time.perf_counter()
from kwiken import Service
base = memory()
from kwiken.services.search import search
setup = search[sys.argv[1]].setup
setup and setup()
print(json.dumps({"seconds": time.perf_counter() - begin, "base": base, "peak": memory(),
                  "numpy": "numpy" in sys.modules}))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one stage's calls; each shard is one call."""

    stage: str
    calls: int
    mean: float
    p50: float
    p95: float
    p99: float
    most: float


class Load(msgspec.Struct, frozen=True):
    """Cost of a new process for a stage: seconds, MiB before loading and at the peak, and use of NumPy."""

    seconds: float
    base: float
    peak: float
    numpy: bool


def costs(service: Service, queries: Iterable[str]) -> list[Cost]:
    """Cost of every stage's calls over the queries, after some to warm up, and of whole requests."""
    times: dict[str, list[float]] = {name: [] for name in service.stages}
    whole: list[float] = []
    for at, query in enumerate(queries):
        calls: list[tuple[str, float]] = []
        local.answer(service, query, lambda stage, _, ms, calls=calls: calls.append((stage, ms)))  # type: ignore[misc]
        if at >= WARM_UP_QUERIES:
            for stage, ms in calls:
                times[stage].append(ms)
            whole.append(sum(ms for _, ms in calls))
    return [*(_cost(name, values) for name, values in times.items()), _cost("all", whole)]


def _cost(stage: str, values: Sequence[float]) -> Cost:
    if not values:
        raise KwikenError(f"too few queries to measure; more than {WARM_UP_QUERIES} are needed")
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Cost(stage, len(values), sum(values) / len(values), at(0.5), at(0.95), at(0.99), ordered[-1])


def load(stage: str) -> Load:
    """Measure start-up time and memory of a fresh process that serves the stage."""
    root = str(Path(__file__).resolve().parents[4])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", _LOAD, stage]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    if done.returncode:
        raise KwikenError(f"loading stage {stage!r} failed: {done.stderr.strip().splitlines()[-1]}")
    return msgspec.json.decode(done.stdout, type=Load)
