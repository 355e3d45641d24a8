"""Processes of the fault matrix: a gateway and replicas behind detours, and what each of them holds."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from kwiken.model.plan.plan import Plan
from tests.support.faults.matrix.counted import SOCKETS, tasks_of
from tests.support.faults.matrix.detour import Detour
from tests.support.faults.matrix.far_network import FarNetwork, far_network
from tests.support.faults.matrix.service import LOG_FOLDER
from tests.support.peers.protocols import Protocol
from tests.support.runtime.door_processes import listens
from tests.support.runtime.server_processes import ROOT, free_port
from tests.support.runtime.waiting import until

TARGET: Final = "tests.support.faults.matrix.service:service"
LOOKS, JOINS = 3, 2
TOKEN: Final = "matrix"
FAULTS: Final = ROOT / "tests" / "support" / "faults"
CALLS_AT_ONCE: Final = 24  # that a replica takes
BYTES: Final = 16  # of the switches
CLOCK_JUMPS, NAMES_LATE, LOOK_UPS = range(3)


def shim(folder: Path) -> Path:
    """Compile the library of the switched faults."""
    library = folder / "faults.so"
    sources = (FAULTS / "jumping_clock.c", FAULTS / "late_names.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, *sources, "-ldl"], check=True)
    return library


class Place:
    """One process that can be started again at its port.

    Args:
        words: command.
        port: port that it listens at.
        host: address that it listens at.
    """

    def __init__(self, words: Sequence[str], port: int, env: dict[str, str], host: str = "127.0.0.1") -> None:
        self._words, self._env = list(words), env
        self.port, self.host = port, host
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Pid of the process, which runs."""
        assert self.process is not None
        assert self.process.poll() is None, f"ended with {self.process.returncode}"
        return self.process.pid

    async def start(self) -> None:
        """Start the process, if it does not run, and wait until it listens."""
        self._launch()
        process = self.process
        assert process is not None
        if self.host == "127.0.0.1":
            await until(lambda: listens(self.port, process))

    def _launch(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self._words, cwd=ROOT, env=self._env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def memory(self) -> int:
        """Virtual memory, bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[0])
        return pages * resource.getpagesize()

    def descriptors(self) -> int:
        """Number of open files and sockets."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208


class Stack:
    """The processes of one protocol, which all run.

    Args:
        folder: folder for all that they write.
        options: further options of the gateway.
        looks: number of replicas of the look-up.

    Attributes:
        gateway: the gateway.
        looks: replicas of the look-up.
        joins: replicas of the last stage.
        detours: relays before the replicas of the look-up.
        far: a further replica of the look-up in a network of its own; None where none can be made.
        lives: number of gateways so far.
    """

    def __init__(self, protocol: Protocol, folder: Path, *options: str, looks: int = LOOKS) -> None:
        self.protocol = protocol
        self._options = options
        self.lives = 1
        self.far: Place | None = None
        self._switches = folder / "switches"
        self._switches.write_bytes(bytes(BYTES))
        self._calls = folder / "calls"
        self._calls.mkdir()
        self._sockets = str(folder / "tasks")
        self._env = {
            **os.environ,
            "KWIKEN_TOKEN": TOKEN,
            "KWIKEN_TEST_SWITCHES": str(self._switches),
            "LD_PRELOAD": str(shim(folder)),
            LOG_FOLDER: str(self._calls),
            SOCKETS: self._sockets,
        }
        self.looks = [self._replica("look") for _ in range(looks)]
        self.joins = [self._replica("join") for _ in range(JOINS)]
        self.detours = [Detour((each.host, each.port)) for each in self.looks]
        self._folder = folder
        self._read: dict[Path, int] = {}  # bytes of each file of calls that were read

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tests.support.faults.matrix.counted", *words]

    def _replica(self, stage: str, network: FarNetwork | None = None) -> Place:
        port = free_port()
        words = ["stage", TARGET, "--stage", stage, "--port", str(port)]
        words += [
            "--max-inflight",
            str(CALLS_AT_ONCE),
        ]
        if network is None:
            return Place(self._command(*words), port, self._env)
        words += ["--host", network.host]
        return Place([*network.enter, *self._command(*words)], port, self._env, network.host)

    @contextlib.asynccontextmanager
    async def running(self, number: int) -> AsyncIterator[None]:
        """Start all processes; they are killed at the end."""
        with far_network(number) as network:
            places = [*self.looks, *self.joins]
            if network is not None:
                self.far = self._replica("look", network)
                places.append(self.far)
            try:
                await asyncio.gather(
                    *(each.start() for each in places), *(each.open() for each in self.detours)
                )
                self.gateway = self._gateway()
                await self.gateway.start()
                yield
            finally:
                for each in (*places, *([self.gateway] if hasattr(self, "gateway") else [])):
                    each.kill()
                for detour in self.detours:
                    await detour.close()

    def _gateway(self) -> Place:
        port, self.grpc_port = free_port(), free_port()
        words = ["serve", TARGET, "--port", str(port), "--grpc-port", str(self.grpc_port)]
        words += ["--traces", str(self._folder / "traces"), *self._options]
        for detour in self.detours:
            words += ["--replica", f"look=127.0.0.1:{detour.port}"]
        for each in self.joins:
            words += ["--replica", f"join=late.test:{each.port}"]
        return Place(self._command(*words), port, self._env)

    @property
    def url(self) -> str:
        """URL of the gateway."""
        return f"http://127.0.0.1:{self.gateway.port}"

    async def restart_gateway(self) -> None:
        """Kill the gateway, and start another one at its ports."""
        self.gateway.kill()
        await self.gateway.start()
        self.lives += 1

    # What tests turn.

    def switch(self, number: int, *, on: bool) -> None:
        """Turn a fault of the library on or off, in all processes."""
        self._poke(number, int(on))

    def look_ups(self) -> int:
        """Number of look-ups of names so far, from 0 to 255."""
        return self._switches.read_bytes()[LOOK_UPS]

    def _poke(self, number: int, value: int) -> None:
        with self._switches.open("r+b") as file:
            file.seek(number)
            file.write(bytes([value]))

    async def put_plan(self, session: aiohttp.ClientSession, plan: Plan | None) -> None:
        """Put a plan in force, or none."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with session.put(
            self.url + "/v1/plan", data=msgspec.json.encode(plan), headers=headers
        ) as answer:
            assert answer.status == 200, await answer.text()

    async def status(self, session: aiohttp.ClientSession) -> dict[str, Any]:
        """Status of the gateway."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with session.get(self.url + "/v1/status", headers=headers) as answer:
            found: dict[str, Any] = msgspec.json.decode(await answer.read())
            return found

    # What they count.

    def new_calls(self) -> collections.Counter[tuple[str, int, int]]:
        """Calls that replicas started since the last time, by stage, request and shard."""
        found: collections.Counter[tuple[str, int, int]] = collections.Counter()
        for path in self._calls.iterdir():
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            self._read[path] = self._read.get(path, 0) + len(data)
            for line in data.decode().splitlines():
                stage, number, shard = line.split()
                if int(number) >= 0:
                    found[stage, int(number), int(shard)] += 1
        return found

    @property
    def places(self) -> Iterator[Place]:
        """All processes but the one in a network of its own."""
        yield from (self.gateway, *self.looks, *self.joins)

    def children(self) -> list[int]:
        """Pids of the processes that the gateway started."""
        pid = self.gateway.pid
        with contextlib.suppress(OSError):
            return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    async def held(self) -> dict[str, tuple[int, int]]:
        """Tasks and descriptors of each process."""
        names = [
            "gateway",
            *(f"look {n}" for n in range(len(self.looks))),
            *(f"join {n}" for n in range(JOINS)),
        ]
        found = {}
        for name, place in zip(names, self.places, strict=True):
            tasks = await asyncio.to_thread(tasks_of, self._sockets, place.pid)
            found[name] = tasks, place.descriptors()
        return found


def tell(place: Place, number: signal.Signals) -> None:
    """Send a signal to a process."""
    os.kill(place.pid, number)
