"""Processes of the demonstration: Dask's scheduler and workers, and the search service, each in its rack."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.plans.racks_live.namespaces import LocalRack, LocalRacks
from kwiken.base.errors import KwikenError

WORKERS: Final = 2  # of a rack
THREADS: Final = 2  # of a worker: tasks at once
SERVICE: Final = "kwiken.services.search:search"
# Rack of each stage: requests start in the first, and cross to the others and back.
RACK_OF_STAGE: Final = {
    "parse": 0,
    "spell": 0,
    "page": 0,
    "lookup": 1,
    "symbols": 1,
    "rank": 2,
    "snippets": 2,
}
START_S: Final = 90.0  # for everything to be ready
GRACE_S: Final = 3.0


class DemoProcesses:
    """Processes that this demonstration has started, ended by their own ids.

    Args:
        log: file that their output is appended to.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._running: list[asyncio.subprocess.Process] = []

    async def start(self, *words: str, prefix: Sequence[str] = ()) -> asyncio.subprocess.Process:
        """Start a command of this Python.

        Args:
            words: arguments of the interpreter.
            prefix: words to put before, so that it runs in a rack.
        """
        with self._log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *prefix,
                sys.executable,
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    @property
    def running(self) -> Sequence[asyncio.subprocess.Process]:
        """Processes that have not been ended, in the order of their start."""
        return tuple(self._running)

    def check(self) -> None:
        """Raise KwikenError when a process has ended by itself."""
        for process in self._running:
            if process.returncode is not None:
                raise KwikenError(f"a process ended with exit code {process.returncode}; see {self._log}")

    async def end(self, processes: Sequence[asyncio.subprocess.Process], *, kill: bool = False) -> None:
        """End processes; those that do not end by themselves are killed."""
        for process in processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        for process in processes:
            try:
                await asyncio.wait_for(process.wait(), GRACE_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            if process in self._running:
                self._running.remove(process)

    async def end_all(self) -> None:
        """End every process that still runs."""
        await self.end(list(reversed(self._running)))


@contextlib.asynccontextmanager
async def processes(log: Path) -> AsyncIterator[DemoProcesses]:
    """Processes that end with the block.

    Yields:
        What starts them.
    """
    found = DemoProcesses(log)
    try:
        yield found
    finally:
        await found.end_all()


def free_port(host: str) -> int:
    """A free port of an address of this machine."""
    with socket.socket() as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


async def start_dask(
    started: DemoProcesses, racks: LocalRacks, resource: str
) -> tuple[str, dict[str, list[asyncio.subprocess.Process]]]:
    """Start a scheduler beside the racks, and workers in them.

    Args:
        resource: start of the name of the resource that says a worker's rack.

    Returns:
        Address of the scheduler, and the workers of each rack.
    """
    address = f"{racks.host}:{free_port(racks.host)}"
    host, port = address.split(":")
    await started.start("-m", "dask", "scheduler", "--host", host, "--port", port, "--no-dashboard")
    workers: dict[str, list[asyncio.subprocess.Process]] = {}
    for rack in racks.racks:
        for number in range(WORKERS):
            process = await started.start(
                *("-m", "dask", "worker", f"tcp://{address}", "--host", rack.host, "--no-nanny"),
                *("--nthreads", str(THREADS), "--name", f"{rack.name}-{number}", "--memory-limit", "0"),
                *("--no-dashboard", "--resources", f"{resource}{rack.name}=1"),
                prefix=rack.prefix,
            )
            workers.setdefault(rack.name, []).append(process)
    return address, workers


async def start_service(started: DemoProcesses, racks: LocalRacks) -> str:
    """Start the search service, its stages in several racks, and wait for its first answer; its address."""
    ports = iter(range(FIRST_PORT, FIRST_PORT + 100)) if racks.limited else None

    def port(rack: LocalRack) -> int:
        return next(ports) if ports is not None else free_port(rack.host)

    replicas = []
    for stage, place in RACK_OF_STAGE.items():
        rack, number = racks.racks[place], port(racks.racks[place])
        await started.start(
            *("-m", "kwiken", "stage", SERVICE, "--stage", stage),
            *("--host", rack.host, "--port", str(number), "--grace", "1", "--max-inflight", "4096"),
            prefix=rack.prefix,
        )
        replicas += ["--replica", f"{stage}={rack.host}:{number}"]
    front = racks.racks[0]
    url = f"http://{front.host}:{port(front)}"
    await started.start(
        *("-m", "kwiken", "serve", SERVICE, "--host", front.host, "--port", url.rpartition(":")[2]),
        *("--grace", "1", "--trace", "off", "--allowed-host", front.host, *replicas),
        prefix=front.prefix,
    )
    until_s = time.monotonic() + START_S
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5.0)) as session:
        while time.monotonic() < until_s:
            started.check()
            try:
                async with session.post(f"{url}/v1/request", json={"query": "open a file"}) as response:
                    if response.status == OK:
                        return url
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.3)
    raise KwikenError(f"the search service did not answer within {START_S:.0f} s")


FIRST_PORT: Final = 9100  # of the service in racks with a network of their own
OK: Final = 200
