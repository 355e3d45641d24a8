"""Supervisor of the pausing process: starts and stops it, and leaves no replica paused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import msgspec

from kwiken.apps.demo.faults.pause_schedule import (
    DESCRIPTION,
    disturbed_stages,
    reach_of,
    share_of_requests,
    share_of_time,
)
from kwiken.apps.demo.faults.pauser import Order, Pause, PausedProcess
from kwiken.apps.report.model.result import Disturbance, Paused
from kwiken.base.errors import KwikenError

STOP_S = 5.0  # the longest wait for the pausing process to end


class DisturbanceError(KwikenError):
    """The pausing process ended by itself."""


@dataclass(frozen=True)
class DisturbedStage:
    """Stage to disturb, and the names of its replicas by pid."""

    target: PausedProcess
    replicas: Mapping[int, str]


def choose(
    processes: Iterable[Mapping[str, Any]], seed: int, *, rate: float, calls: Mapping[str, int]
) -> dict[str, DisturbedStage]:
    """Draw the stages to disturb, and the share of the time for which their replicas are paused.

    Args:
        processes: replicas, as `Cluster.status` lists them.
        rate: requests a second that will come.
        calls: number of calls of a request by stage.
    """
    by_stage: dict[str, list[tuple[str, int]]] = {}
    for process in processes:
        entry = (process["replica"], process["identity"]["pid"])
        by_stage.setdefault(process["stage"], []).append(entry)
    return {
        stage: DisturbedStage(
            PausedProcess(
                stage,
                [pid for _, pid in sorted(those)],
                share_of_time(
                    share_of_requests(stage, seed), rate=rate, reach=reach_of(len(those), calls[stage])
                ),
            ),
            {pid: name for name, pid in those},
        )
        for stage, those in ((name, by_stage[name]) for name in disturbed_stages(by_stage, seed))
    }


class Disturber:
    """Context that pauses replicas while it is open.

    At its end every replica runs again. The pausing process continues them when its input closes, also if
    this process is killed; this process continues them if the pausing process is killed.

    Args:
        flaky: stages to disturb, by name; empty for no disturbance.
    """

    def __init__(self, flaky: Mapping[str, DisturbedStage], seed: int) -> None:
        self._flaky = dict(flaky)
        self._seed = seed
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._began_s = self._ended_s = 0.0
        self.pauses: list[Pause] = []

    async def __aenter__(self) -> Self:
        """Start pausing."""
        self._began_s = self._ended_s = time.time()
        if not self._flaky:
            return self
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kwiken.apps.demo.faults.pauser",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # the terminal's Ctrl-C reaches this process only, which ends the child
        )
        assert self._process.stdin is not None
        order = Order(self._seed, [flaky.target for flaky in self._flaky.values()])
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._reader = asyncio.create_task(self._listen(self._process))
        return self

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.pauses.append(msgspec.json.decode(line, type=Pause))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop pausing, and continue every replica."""
        try:
            if self._process is not None:
                await self._end(self._process)
        finally:
            self._ended_s = time.time()
            for pid in (pid for flaky in self._flaky.values() for pid in flaky.target.pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def check(self) -> None:
        """Check that the pausing process still runs.

        Raises:
            DisturbanceError: when it has ended.
        """
        if self._process is not None and self._process.returncode is not None:
            raise DisturbanceError(
                f"the disturbance ended too soon, with exit code {self._process.returncode}"
            )

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
                if self._reader is not None:
                    await self._reader
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        finally:
            if self._reader is not None:
                self._reader.cancel()

    def report(self) -> Disturbance:
        """Summary of the pauses while the context was open."""
        length = max(self._ended_s - self._began_s, 1e-9)
        stages = {}
        for stage, flaky in self._flaky.items():
            own = [pause for pause in self.pauses if pause.stage == stage]
            realised = sum(pause.end_s - pause.start_s for pause in own) / length
            stages[stage] = Paused(
                planned=flaky.target.share,
                realised=realised,
                bursts=len(own),
                pauses=[
                    (flaky.replicas[pause.pid], round(pause.start_s, 4), round(pause.end_s, 4))
                    for pause in own
                ],
            )
        return Disturbance(calm=not self._flaky, law=DESCRIPTION if self._flaky else "none", stages=stages)
