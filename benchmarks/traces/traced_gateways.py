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
import os
import random
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import uvloop

from benchmarks.gateway.bench_gateway import load
from benchmarks.gateway.chain import Item, chain
from kwiken.otel.write.observer import RequestSpans, make_observer
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.decisions.trace_sampling import DRAWN_SHARE, TraceSampler
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings, TraceMode
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica, Transport
from kwiken.runtime.wire.transport.wire import REQUEST_PATH, format_traceparent

TARGET: Final = "benchmarks.gateway.chain:chain"
STARTED_S: Final = 30.0
MODES: Final[tuple[TraceMode, ...]] = ("off", "sampled", "all")
WARM_UP: Final = 300  # single requests before measuring, which is more than a sampler keeps at its start
SETTLE_S: Final = 0.0005  # after which the event loop waits again
MAX_ANSWER: Final = 1 << 16  # bytes
BODY: Final = msgspec.json.encode(Item("x" * 200))


class Counts(NamedTuple):
    """Numbers of one gateway.

    Attributes:
        kept: requests whose spans were kept; 0 without a sampler.
        dropped: requests whose spans were dropped.
        writing_ns: processor time of the thread that writes its spans, nanoseconds; 0 without one.
    """

    kept: int
    dropped: int
    writing_ns: int


class TracedExecutor(NamedTuple):
    """Executor with its sampler, the writer of its spans, and the id of its thread, if it has them."""

    executor: Executor
    sampler: TraceSampler | None
    writer: RequestSpans | None
    thread: int | None

    def counts(self) -> Counts:
        """Numbers of requests so far, once the spans of all of them are written."""
        writing_ns = 0
        if self.writer is not None and self.thread is not None:
            self.writer.flush()
            writing_ns = thread_ns(os.getpid(), self.thread)
        if self.sampler is None:
            return Counts(0, 0, writing_ns)
        return Counts(sum(self.sampler.kept.values()), self.sampler.dropped, writing_ns)

    def close(self) -> None:
        """Stop writing spans."""
        if self.writer is not None:
            self.writer.close()


def executor_of(
    mode: TraceMode, transport: Transport, replicas: Mapping[str, Sequence[Replica]], folder: Path
) -> TracedExecutor:
    """Executor of the chain.

    Args:
        mode: whose spans it writes.
        transport: carries its calls.
        replicas: replicas by stage.
        folder: folder for traces.
    """
    before = set(threading.enumerate())
    writer = None if mode == "off" else make_observer(chain.name, traces=folder / mode)
    thread = next(iter(set(threading.enumerate()) - before), None)  # of the writer
    sampler = TraceSampler() if mode == "sampled" else None
    executor = Executor(
        chain,
        transport,
        replicas=replicas,
        clock=SystemClock(),
        rng=random.Random(7),
        observer=writer,
        sampler=sampler,
    )
    return TracedExecutor(executor, sampler, writer, None if thread is None else thread.native_id)


async def _serve(replicas: dict[str, list[Replica]], folder: Path) -> None:
    async with FrameTransport(chain, raw=True) as transport:
        executors = [executor_of(mode, transport, replicas, folder) for mode in MODES]
        gateways = [Gateway(chain, each.executor, GatewaySettings()) for each in executors]
        for gateway in gateways:
            await gateway.start()
        print(msgspec.json.encode([gateway.url for gateway in gateways]).decode(), flush=True)
        gc.collect()
        gc.freeze()  # as a gateway does once it has started
        while line := await asyncio.to_thread(sys.stdin.readline):
            counts = await asyncio.to_thread(executors[int(line)].counts)
            print(msgspec.json.encode(counts).decode(), flush=True)
        for each, gateway in zip(executors, gateways, strict=True):
            await gateway.stop(grace_s=1.0, linger_s=0.0)
            each.close()


class Turn(NamedTuple):
    """One request to each gateway.

    Attributes:
        drawn: whether their traces are such as a sampler draws.
        us: processor time of the process's event loop for each, microseconds.
    """

    drawn: bool
    us: dict[TraceMode, float]


class TracedGateways:
    """The process with its gateways; made by `traced_gateways`."""

    def __init__(self, process: asyncio.subprocess.Process, urls: Sequence[str]) -> None:
        self._process = process
        self.urls = dict(zip(MODES, urls, strict=True))

    async def us_a_request(self, mode: TraceMode, seconds: float, callers: int) -> float:
        """Load one gateway for some seconds; processor time of the process a request, microseconds."""
        before = processor_ns(self._process.pid)
        latencies, _ = await load(self.urls[mode], seconds, callers)
        await self.counts(mode)
        return (processor_ns(self._process.pid) - before) / len(latencies) / 1e3

    async def one_by_one(self, turns: int) -> list[Turn]:
        """Send single requests to all gateways in turn; half of the traces are such as a sampler draws.

        The requests carry a caller's trace context, which a gateway that writes no spans passes on.
        The kernel counts the time of a thread exactly once it waits. So a request's time is read when the
        event loop has waited for a while, and nothing that happens meanwhile elsewhere is in it.
        """
        return await asyncio.to_thread(self._one_by_one, turns)

    def _one_by_one(self, turns: int) -> list[Turn]:
        pid, rng, found = self._process.pid, random.Random(7), []
        clients = {mode: _Client(url) for mode, url in self.urls.items()}
        for client in clients.values():
            for _ in range(WARM_UP):
                client.ask(rng.getrandbits(127) + 1)
        for turn in range(turns):
            # Two turns are alike but for the order; the lower 64 bits of a drawn trace's id are small.
            drawn, modes = turn // 2 % 2 == 0, MODES[:: -1 if turn % 2 else 1]
            low = rng.uniform(0, DRAWN_SHARE) if drawn else rng.uniform(DRAWN_SHARE, 1)
            took: dict[TraceMode, float] = {}
            for mode in modes:
                before = thread_ns(pid, pid)
                clients[mode].ask((rng.getrandbits(63) + 1 << 64) + int(low * (1 << 64)))
                time.sleep(SETTLE_S)
                took[mode] = (thread_ns(pid, pid) - before) / 1e3
            found.append(Turn(drawn, took))
        for client in clients.values():
            client.close()
        return found

    async def counts(self, mode: TraceMode) -> Counts:
        """Numbers of requests so far, once the spans of all of them are written."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{MODES.index(mode)}\n".encode())
        return msgspec.json.decode(await stdout.readline(), type=Counts)


@contextlib.asynccontextmanager
async def traced_gateways(folder: Path) -> AsyncIterator[TracedGateways]:
    """Gateways of the chain, one for each mode, in a process of their own, with replicas of a cluster."""
    async with Cluster(TARGET, ClusterSettings(metrics="off")) as cluster:
        replicas = {
            stage: [Replica(f"{stage}-{number}", "here", url) for number, (_, url) in enumerate(places)]
            for stage, places in cluster.replicas.items()
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.traces.traced_gateways",
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
    return sum(thread_ns(pid, int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir())


def thread_ns(pid: int, thread: int) -> int:
    """Processor time of one thread so far, nanoseconds."""
    return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes().split()[0])


class _Client:
    """Connection to one gateway that waits for each answer."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("http://").rpartition(":")
        self._socket = socket.create_connection((self._host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, trace_id: int) -> None:
        """Send a request of a trace that its caller does not record; wait for the answer."""
        context = format_traceparent(trace_id, 1, sampled=False)
        self._socket.sendall(
            f"POST {REQUEST_PATH} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\ntraceparent: {context}\r\n\r\n".encode()
            + BODY
        )
        answer = self._socket.recv(MAX_ANSWER)
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(answer.decode())

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


if __name__ == "__main__":
    _, places, where = sys.argv
    uvloop.run(_serve(msgspec.json.decode(places, type=dict[str, list[Replica]]), Path(where)))
