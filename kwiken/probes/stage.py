"""Probe of a stage: sandboxed replicas are called with recorded inputs, at several settings and levels.

Settings are measured in rounds, and each is compared with the reference at the start and end of its round, so
that a machine whose speed drifts does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from kwiken.allocator.contention.calibration import Calibration
from kwiken.allocator.contention.errors import ProbeError
from kwiken.allocator.contention.measured_stage import MeasuredRun, StageProbe, measured_runs, variation_of
from kwiken.allocator.contention.ramp import Ramp, RampWindow, Scores
from kwiken.allocator.contention.stage_plan import ProbePlan, ProbeSetting
from kwiken.probes.facts import MachineFacts
from kwiken.probes.kernel import Kernel
from kwiken.probes.machine import MachineProber
from kwiken.probes.record_inputs import RecordedRun
from kwiken.probes.run_stage import (
    CONTROL_BYTES,
    DONE,
    DONE_AT_NS,
    READY,
    RUN,
    SQUARED_UNIT_NS,
    WORK_NS,
    WORK_SQUARED,
    SharedPage,
)
from kwiken.probes.sandbox import Sandbox
from kwiken.runtime.base.process_id import family
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import NodeLimits

RECORD_S: Final = 120.0  # for the service to be set up and to answer the requests
START_S: Final = 60.0  # for a replica to become ready
CALLS_S: Final = 30.0  # for a window to hold enough calls
POLL_S: Final = 0.01
SETTLE_S: Final = 0.1  # after a setting or level has changed
ROUNDS: Final = 5  # turns of all settings
MIN_CALLS: Final = 20  # in a window: one call more or less must not be seen
MAX_STRETCH: Final = 5.0  # of a window, for slow stages
NO_MODULE: Final = "it ended without a reason"


@dataclass(frozen=True)
class StageTarget:
    """Service and stage that are probed.

    Attributes:
        requests: file with the service's requests, one JSON body a line.
        folder: working folder of the service, which is copied.
    """

    target: str
    stage: str
    requests: Path
    folder: Path


class StageProber:
    """Measures a stage on this machine.

    Args:
        calibrations: calibrations by source; one that is missing is made.
        window_s: length of one window, seconds.
        advanced: called after the recording, each round of the settings, and each ramp.
    """

    def __init__(
        self,
        prober: MachineProber,
        facts: MachineFacts,
        *,
        calibrations: Mapping[str, Calibration],
        window_s: float,
        advanced: Callable[[], None],
    ) -> None:
        self._prober = prober
        self._facts = facts
        self._calibrations = calibrations
        self._window_s = window_s
        self._advanced = advanced

    async def run(self, target: StageTarget, plan: ProbePlan) -> StageProbe:
        """Probe a stage in a sandbox of its own.

        Raises:
            ProbeError: the stage cannot be run, or fails, or is too slow.
            KwikenError: processes cannot be limited.
        """
        async with Sandbox(target.folder) as sandbox, NodeLimits() as limits:
            inputs = await _record(limits, sandbox, target)
            self._advanced()
            most = max(setting.replicas for setting in (plan.reference, *plan.others))
            async with contextlib.AsyncExitStack() as stack:
                starts = [_replica(limits, sandbox, target, inputs, number) for number in range(most)]
                replicas = [await stack.enter_async_context(start) for start in starts]
                stack.enter_context(self._off_the_victim())
                measured = _Measurement(limits, replicas, self._window_s)
                runs = await self._runs(measured, plan)
                variation = measured.work_variation()
                await measured.measure(plan.reference)
                measured.pin(self._facts.victim)
                scores, rough = {}, []
                for source in plan.sources:
                    calibrated = await self._calibrated(measured, source)
                    rough += [] if calibrated.linear else [source]
                    scores[source] = await self._ramp(measured, calibrated)
        return StageProbe(runs, scores, tuple(rough), limits.method.value, variation)

    @contextlib.contextmanager
    def _off_the_victim(self) -> Iterator[None]:
        """Keep this process off the processor on which the stage is pressed, where there is another."""
        before = os.sched_getaffinity(0)
        others = set(self._facts.processors) - {self._facts.victim}
        if others:
            os.sched_setaffinity(0, others)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    async def _runs(self, measured: _Measurement, plan: ProbePlan) -> tuple[MeasuredRun, ...]:
        """Performance of every setting, in rounds that start and end with the reference."""
        settings = (plan.reference, *plan.others)
        rounds = []
        for _ in range(ROUNDS):
            turn = []
            for setting in (*settings, plan.reference):
                await measured.measure(setting)
                turn.append(await measured.window())
            rounds.append(turn)
            self._advanced()
        return measured_runs(settings, np.array(rounds))

    async def _calibrated(self, measured: _Measurement, source: str) -> Calibration:
        """Calibration of a source as given, or made now while the stage rests."""
        if source in self._calibrations:
            return self._calibrations[source]
        measured.go(running=False)
        return await self._prober.calibrate(source)

    async def _ramp(self, measured: _Measurement, calibrated: Calibration) -> Scores:
        async with self._prober.kernel(calibrated.source) as kernel:
            ramp = Ramp()
            while (step := ramp.next) is not None:
                await kernel.settled(calibrated.drive(step.level))
                measured.go(running=step.window is not RampWindow.KERNEL)
                await asyncio.sleep(SETTLE_S / 2)
                ramp.record(*await self._window(measured, kernel, step.window))
        self._advanced()
        return ramp.scores

    async def _window(
        self, measured: _Measurement, kernel: Kernel, window: RampWindow
    ) -> tuple[float | None, float | None]:
        """Performance of the workload and speed of the kernel in one window."""
        before = kernel.counters()
        if window is RampWindow.KERNEL:
            return None, (await kernel.measure(self._window_s)).busy_rate
        performance = await measured.window()
        return performance, None if window is RampWindow.WORKLOAD else kernel.speed_since(before).busy_rate


class _Replica:
    """Process that runs the stage under a limit."""

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, page: SharedPage, failure: Path
    ) -> None:
        self.name = name
        self.page = page
        self._process = process
        self._failure = failure

    async def until_ready(self) -> None:
        """Wait until the stage is set up.

        Raises:
            ProbeError: it cannot be set up.
        """
        deadline = time.monotonic() + START_S
        while not self.page.read(READY):
            self.check()
            if time.monotonic() > deadline:
                raise ProbeError(f"{self.name} was not ready within {START_S:g} s")
            await asyncio.sleep(POLL_S)

    def check(self) -> None:
        """Raise a ProbeError if the process has ended."""
        if self._process.returncode is not None:
            raise ProbeError(f"{self.name}: {_error_in(self._failure) or NO_MODULE}")

    def pin(self, processor: int) -> None:
        """Keep the process and its children on one processor; later children inherit that."""
        for process in family(self._process.pid):
            with contextlib.suppress(OSError):  # a thread or child that has ended
                for thread in Path(f"/proc/{process}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {processor})


class _Measurement:
    """Replicas that emulate settings, and what they complete."""

    def __init__(self, limits: NodeLimits, replicas: Sequence[_Replica], window_s: float) -> None:
        self._limits = limits
        self._replicas = replicas
        self._window_s = window_s
        self._playing: Sequence[_Replica] = ()

    async def measure(self, setting: ProbeSetting) -> None:
        """Set the limits of a setting and let its replicas run."""
        self.go(running=False)
        self._playing = self._replicas[: setting.replicas]
        limit = Limit(cores=setting.size.cores, speed=setting.speed)
        for each in self._playing:
            self._limits.resize(each.name, limit)
        self.go(running=True)
        await asyncio.sleep(SETTLE_S)

    def go(self, *, running: bool) -> None:
        """Let the replicas of the setting run, or pause."""
        for each in self._playing:
            each.page.write(RUN, int(running))

    async def window(self) -> float:
        """Calls per second over a window, which is longer for slow stages; from completion to completion.

        Raises:
            ProbeError: a replica has failed, or completes too few calls.
        """
        before = [(each.page.read(DONE), max(each.page.read(DONE_AT_NS), 1)) for each in self._playing]
        started = time.monotonic_ns()
        for turn in range(1, int(CALLS_S / self._window_s) + 2):
            await asyncio.sleep(self._window_s)
            rates = []
            fewest = MIN_CALLS
            for each, (count, last) in zip(self._playing, before, strict=True):
                each.check()
                done = each.page.read(DONE) - count
                fewest = min(fewest, done)
                # A replica that was paused completed its last call long ago.
                since = last if started - last < self._window_s * 1e9 else started
                rates.append(done * 1e9 / max(each.page.read(DONE_AT_NS) - since, 1))
            if fewest >= MIN_CALLS or (fewest > 1 and turn >= MAX_STRETCH):
                return sum(rates)
        raise ProbeError(f"{self._playing[0].name} completes fewer than 2 calls within {CALLS_S:g} s")

    def work_variation(self) -> float | None:
        """Coefficient of variation of the processor time of calls so far; None where it cannot be told."""
        pages = [each.page for each in self._replicas]
        return variation_of(
            sum(page.read(DONE) for page in pages),
            sum(page.read(WORK_NS) for page in pages) / SQUARED_UNIT_NS,
            sum(page.read(WORK_SQUARED) for page in pages),
        )

    def pin(self, processor: int) -> None:
        """Keep the replicas on one processor, where contention kernels press on them."""
        for each in self._replicas:
            each.pin(processor)


def _error_in(path: Path) -> str | None:
    """Error that a program in the sandbox has left; None for none."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=RecordedRun).error
    except (OSError, msgspec.MsgspecError):
        return None


@contextlib.asynccontextmanager
async def _replica(
    limits: NodeLimits, sandbox: Sandbox, target: StageTarget, inputs: Path, number: int
) -> AsyncIterator[_Replica]:
    name = f"stage {target.stage!r}, replica {number}"
    failure = sandbox.scratch / f"failure-{number}"
    memory = os.memfd_create("kwiken-probe")
    try:
        os.ftruncate(memory, CONTROL_BYTES)
        page = SharedPage(memory)
        words = (target.target, target.stage, str(inputs), str(memory), str(failure))
        process = await _start(limits, sandbox, name, "run_stage", words, pass_fds=(memory,))
    finally:
        os.close(memory)
    try:
        found = _Replica(name, process, page, failure)
        await found.until_ready()
        yield found
    finally:
        await limits.end(name)
        page.close()


async def _record(limits: NodeLimits, sandbox: Sandbox, target: StageTarget) -> Path:
    """File with the inputs of the stage, recorded by a process in the sandbox."""
    out = sandbox.scratch / "inputs"
    words = (target.target, target.stage, str(target.requests.resolve()), str(out))
    process = await _start(limits, sandbox, "recorder", "record_inputs", words)
    try:
        async with asyncio.timeout(RECORD_S):
            await process.wait()
    except TimeoutError:
        raise ProbeError(f"the service did not answer the requests within {RECORD_S:g} s") from None
    finally:
        await limits.end("recorder")
    error = _error_in(out)
    if error is not None or not out.exists():
        raise ProbeError(f"inputs of stage {target.stage!r} cannot be recorded: {error or NO_MODULE}")
    return out


async def _start(
    limits: NodeLimits, sandbox: Sandbox, name: str, program: str, words: Sequence[str], **options: Any
) -> asyncio.subprocess.Process:
    """Start a program of this package in the sandbox; its limit comes with the setting that is emulated."""
    return await limits.start(
        [sys.executable, "-m", f"kwiken.probes.{program}", *words],
        name=name,
        limit=Limit(cores=float(os.cpu_count() or 1)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=sandbox.work,
        env=sandbox.environment(),
        **options,
    )
