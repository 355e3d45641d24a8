"""Benchmark of tracing: processor time of the gateway a request, without spans, with sampled ones, with all.

Three clusters of one chain of stages take load in turn. Each has a gateway of its own, whose processor time
is read from the kernel, with the thread that writes the spans.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.bench_gateway import load
from benchmarks.chain import STAGES
from benchmarks.harness import Row, paired
from kwiken.runtime.cluster import Cluster, ClusterSettings
from kwiken.runtime.process import TraceMode

MODES: Final[tuple[TraceMode, ...]] = ("off", "sampled", "all")
CALLERS: Final = 4  # few, so that no request is turned away on a busy machine
LEAST_SHARE: Final = 0.95  # of the gateway's processor time that is to be left to requests


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (2, 0.5) if quick else (30, 0.6)
    measured: list[Row] = uvloop.run(_compare(rounds, seconds))
    return measured


async def _compare(rounds: int, seconds: float) -> list[Row]:
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        clusters = {}
        for mode in MODES:
            settings = ClusterSettings(traces=Path(folder) / mode, trace=mode)
            clusters[mode] = await stack.enter_async_context(Cluster("benchmarks.chain:chain", settings))
        figures: dict[TraceMode, list[float]] = {mode: [] for mode in MODES}
        for turn in range(rounds + 1):
            # Each is first, second and last in turn: what runs before leaves its traces in the caches.
            for step in range(len(MODES)):
                mode = MODES[(turn + step) % len(MODES)]
                spent = await _us_a_request(clusters[mode], seconds)
                if turn:  # the first turn is a warm-up
                    figures[mode].append(spent)
    name = f"chain of {len(STAGES)} stages over HTTP, {CALLERS} at once: gateway's processor time a request"
    rows = []
    for mode, least in (("sampled", LEAST_SHARE), ("all", None)):
        pairs = list(zip(figures[mode], figures["off"], strict=True))
        rows.append(paired(f"{name}, --trace {mode}", "--trace off", pairs, unit="us", least=least))
    return rows


async def _us_a_request(cluster: Cluster, seconds: float) -> float:
    """Load a cluster for some seconds; processor time of its gateway a request, microseconds."""
    (pid,) = cluster.gateway_pids
    before = _processor_ns(pid)
    latencies, _ = await load(cluster.gateway_url, seconds, CALLERS)
    return (_processor_ns(pid) - before) / len(latencies) / 1e3


def _processor_ns(pid: int) -> int:
    """Processor time of all threads of a process so far, nanoseconds."""
    return sum(
        int((task / "schedstat").read_text(encoding="ascii").split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    )
