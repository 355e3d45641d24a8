"""Gateways in one process that differ only in what they write of a request; a program and its client.

Two processes of the same program differ by several percent in their processor time, by where their memory
lies. So all gateways that are compared stand in one process, with one event loop, one garbage collector and
one pool of connections to the same replicas. A gateway that has no requests costs as good as nothing.

The program writes the addresses of its gateways on one line. Then it answers each line with the number of a
gateway, once the spans of that gateway's requests are written, with how many requests it kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import uvloop

from benchmarks.bench_gateway import load
from benchmarks.chain import chain
from kwiken.otel.write import RequestRecord, make_observer
from kwiken.otel.write.observer import RequestSpans
from kwiken.runtime.clock import SystemClock
from kwiken.runtime.cluster import Cluster, ClusterSettings
from kwiken.runtime.decisions import RequestSampling, TraceSampler
from kwiken.runtime.decisions.trace_sampling import Kept
from kwiken.runtime.engine import Executor
from kwiken.runtime.gateway import Gateway, GatewaySettings
from kwiken.runtime.grpc import RemoteTransport
from kwiken.runtime.transport import Replica, Transport

TARGET: Final = "benchmarks.chain:chain"
STARTED_S: Final = 30.0


class Way(StrEnum):
    """What a gateway does with the spans of its requests: each does what the one before does, and more."""

    OFF = "--trace off"
    DROPPED = "moments noted, trace context sent, every request dropped"
    RECORDED = "records made of the sampled requests, and thrown away"
    SAMPLED = "--trace sampled"
    ALL = "--trace all"


class _KeepsNothing(TraceSampler):
    """Decides as the usual one does, and then drops every request."""

    def begin(self, trace_id: int, *, asked: bool, control: bool) -> RequestSampling:
        sampling = super().begin(trace_id, asked=asked, control=control)
        sampling.kept = False
        return sampling

    def end(self, request: RequestSampling, took_s: float, *, failed: bool, partial: bool) -> Kept | None:
        super().end(request, took_s, failed=failed, partial=partial)
        return None


class _WritesNothing:
    """Observer that throws records away."""

    def request_finished(self, record: RequestRecord) -> None:
        """Take the record of one request."""


class Counts(NamedTuple):
    """Requests of one gateway whose spans were kept, and all others."""

    kept: int
    dropped: int


class Side(NamedTuple):
    """Executor of one way, with its sampler and the writer of its spans, if it has them."""

    executor: Executor
    sampler: TraceSampler | None
    writer: RequestSpans | None

    def counts(self) -> Counts:
        """Numbers of requests so far, once the spans of all of them are written."""
        if self.writer is not None:
            self.writer.flush()
        if self.sampler is None:
            return Counts(0, 0)
        return Counts(sum(self.sampler.kept.values()), self.sampler.dropped)

    def close(self) -> None:
        """Stop writing spans."""
        if self.writer is not None:
            self.writer.close()


def side_of(way: Way, transport: Transport, replicas: Mapping[str, Sequence[Replica]], folder: Path) -> Side:
    """Executor of the chain that goes one way.

    Args:
        way: what it does with the spans of its requests.
        transport: carries its calls.
        replicas: replicas by stage.
        folder: folder for traces.
    """
    writes = way in (Way.SAMPLED, Way.ALL)
    writer = make_observer(chain.name, traces=folder / way.name) if writes else None
    sampler: TraceSampler | None = None
    if way is Way.DROPPED:
        sampler = _KeepsNothing()
    elif way in (Way.RECORDED, Way.SAMPLED):
        sampler = TraceSampler()
    executor = Executor(
        chain,
        transport,
        replicas=replicas,
        clock=SystemClock(),
        rng=random.Random(7),
        observer=writer if writes or way is Way.OFF else _WritesNothing(),
        sampler=sampler,
    )
    return Side(executor, sampler, writer)


async def _serve(replicas: dict[str, list[Replica]], folder: Path) -> None:
    async with RemoteTransport(chain, raw=True) as transport:
        sides = [side_of(way, transport, replicas, folder) for way in Way]
        gateways = [Gateway(chain, side.executor, GatewaySettings()) for side in sides]
        for gateway in gateways:
            await gateway.start()
        print(msgspec.json.encode([gateway.url for gateway in gateways]).decode(), flush=True)
        gc.collect()
        gc.freeze()  # as a gateway does once it has started
        while line := await asyncio.to_thread(sys.stdin.readline):
            counts = await asyncio.to_thread(sides[int(line)].counts)
            print(msgspec.json.encode(counts).decode(), flush=True)
        for side, gateway in zip(sides, gateways, strict=True):
            await gateway.stop(grace_s=1.0, linger_s=0.0)
            side.close()


class TracedGateways:
    """The process with its gateways; made by `traced_gateways`."""

    def __init__(self, process: asyncio.subprocess.Process, urls: Sequence[str]) -> None:
        self._process = process
        self.urls = dict(zip(Way, urls, strict=True))

    async def us_a_request(self, way: Way, seconds: float, callers: int) -> float:
        """Load one gateway for some seconds; processor time of the process a request, microseconds."""
        before = processor_ns(self._process.pid)
        latencies, _ = await load(self.urls[way], seconds, callers)
        await self.counts(way)
        return (processor_ns(self._process.pid) - before) / len(latencies) / 1e3

    async def counts(self, way: Way) -> Counts:
        """Numbers of requests so far, once the spans of all of them are written."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{list(Way).index(way)}\n".encode())
        return msgspec.json.decode(await stdout.readline(), type=Counts)


@contextlib.asynccontextmanager
async def traced_gateways(folder: Path) -> AsyncIterator[TracedGateways]:
    """Gateways of the chain, one for each `Way`, in a process of their own, with replicas of a cluster."""
    async with Cluster(TARGET, ClusterSettings(metrics="off")) as cluster:
        replicas = {
            stage: [Replica(f"{stage}-{number}", "here", url) for number, (_, url) in enumerate(places)]
            for stage, places in cluster.replicas.items()
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.traced_gateways",
            msgspec.json.encode(replicas).decode(),
            str(folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(STARTED_S):
                urls = msgspec.json.decode(await process.stdout.readline(), type=list[str])
            yield TracedGateways(process, urls)
        finally:
            process.stdin.close()
            await process.wait()


def processor_ns(pid: int) -> int:
    """Processor time of all threads of a process so far, nanoseconds."""
    return sum(
        int((task / "schedstat").read_text(encoding="ascii").split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


if __name__ == "__main__":
    _, places, where = sys.argv
    uvloop.run(_serve(msgspec.json.decode(places, type=dict[str, list[Replica]]), Path(where)))
