"""Probe of a machine: calibrates contention kernels alone, then measures what they cost one another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kwiken.allocator.contention.calibration import (
    CALIBRATION_LEVELS,
    Calibration,
    calibrate,
    corrected_drives,
)
from kwiken.allocator.contention.crosstalk import Crosstalk, loss
from kwiken.allocator.contention.errors import ProbeError
from kwiken.allocator.contention.machine_probe import MachineProbe
from kwiken.probes.facts import MachineFacts
from kwiken.probes.kernel import Kernel

CROSSTALK_LEVEL: Final = 0.5
CROSSTALK_MEMORY_BYTES: Final = 1 << 30  # held and given back for every pair
ROUNDS: Final = 3  # of windows alone and under pressure, in turns
WINDOWS_OF_A_LEVEL: Final = 3  # their median counts


@dataclass(frozen=True)
class ProbeSettings:
    """Settings of a machine probe.

    Attributes:
        window_s: length of one window, seconds.
        memory_gb: memory that may be held at full level; None for half of what is available.
        folder: folder on the disk that is probed; None for that of temporary files.
    """

    window_s: float = 0.1
    memory_gb: float | None = None
    folder: Path | None = None


class MachineProber:
    """Measures this machine with contention kernels.

    Args:
        advanced: called after each step that `steps` counts.
    """

    def __init__(
        self, program: Path, facts: MachineFacts, settings: ProbeSettings, advanced: Callable[[], None]
    ) -> None:
        self._program = program
        self._facts = facts
        self._settings = settings
        self._advanced = advanced

    @staticmethod
    def steps(sources: Sequence[str], *, crosstalk: bool) -> int:
        """Number of steps of a whole probe."""
        return len(sources) + (len(sources) if crosstalk else 0)

    def kernel(self, source: str, *, processor: int | None = None, most_bytes: int | None = None) -> Kernel:
        """A kernel of the size that fits this machine.

        Args:
            processor: number of its processor; None for the one from which it presses on a workload.
            most_bytes: limit of its size; None for none.
        """
        size = self._facts.size_bytes(source, memory_gb=self._settings.memory_gb)
        return Kernel(
            self._program,
            source,
            processor=self._facts.processor_for(source) if processor is None else processor,
            size_bytes=size if most_bytes is None else min(size, most_bytes),
            folder=self._settings.folder,
        )

    async def run(self, sources: Sequence[str], *, crosstalk: bool) -> MachineProbe:
        """Probe the machine.

        Args:
            crosstalk: whether to measure what kernels cost one another.

        Raises:
            ProbeError: a kernel does not start, or measures nothing.
        """
        calibrations = {}
        for source in sources:
            calibrations[source] = await self.calibrate(source)
            self._advanced()
        return MachineProbe(
            processors=len(self._facts.processors),
            sizes={
                source: self._facts.size_bytes(source, memory_gb=self._settings.memory_gb)
                for source in sources
            },
            assumed=self._facts.assumed,
            calibrations=calibrations,
            crosstalk=await self.crosstalk(calibrations) if crosstalk else None,
        )

    async def calibrate(self, source: str) -> Calibration:
        """Calibrate one kernel alone; corrects the levels to set where the pressure is not near a line.

        Raises:
            ProbeError: the kernel does not start, or measures nothing.
        """
        async with self.kernel(source) as kernel:
            first = await self._measured(kernel, CALIBRATION_LEVELS)
            if first.linear:
                return first
            second = await self._measured(kernel, corrected_drives(first))
            return min(first, second, key=lambda each: each.residual)

    async def _measured(self, kernel: Kernel, drives: Sequence[float]) -> Calibration:
        rates = []
        for drive in drives:
            await kernel.settled(drive)
            if kernel.source == "memory-capacity":
                rates.append(float(kernel.held_bytes))
                continue
            speeds = [await kernel.measure(self._settings.window_s) for _ in range(WINDOWS_OF_A_LEVEL)]
            rates.append(sorted(each.rate for each in speeds)[WINDOWS_OF_A_LEVEL // 2])
        try:
            return calibrate(kernel.source, CALIBRATION_LEVELS, rates, drives)
        except ValueError as error:
            raise ProbeError(f"{kernel.source}: {error}") from error

    async def crosstalk(self, calibrations: dict[str, Calibration]) -> Crosstalk:
        """Measure what each kernel costs each other one, both at half pressure.

        The kernel that is pressed stands where a workload would; the other presses from where it would press
        on a workload.

        Raises:
            ProbeError: a kernel does not start, or ends.
        """
        sources = tuple(calibrations)
        losses = np.zeros((len(sources), len(sources)))
        drives = {name: each.drive(CROSSTALK_LEVEL) for name, each in calibrations.items()}
        async with AsyncExitStack() as stack:
            pressers = {}
            for name in sources:
                kernel = self.kernel(name, most_bytes=CROSSTALK_MEMORY_BYTES)
                pressers[name] = await stack.enter_async_context(kernel)
            for column, name in enumerate(sources):
                kernel = self.kernel(name, processor=self._facts.victim, most_bytes=CROSSTALK_MEMORY_BYTES)
                async with kernel as pressed:
                    await pressed.settled(drives[name])
                    for row, other in enumerate(sources):
                        losses[row, column] = await self._loss(pressed, pressers[other], drives[other])
                self._advanced()
        return Crosstalk(sources, CROSSTALK_LEVEL, losses)

    async def _loss(self, pressed: Kernel, presser: Kernel, drive: float) -> float:
        window_s = self._settings.window_s / 2
        alone, under = [], []
        for _ in range(ROUNDS):
            presser.set_level(0.0)
            await asyncio.sleep(window_s / 2)
            alone.append((await pressed.measure(window_s)).busy_rate)
            await presser.settled(drive)
            under.append((await pressed.measure(window_s)).busy_rate)
        presser.set_level(0.0)
        return loss(alone, under)
