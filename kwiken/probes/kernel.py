"""One contention kernel as a child process: its level is set, and its counters are read, in shared memory."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kwiken.allocator.contention.calibration import Speed
from kwiken.allocator.contention.errors import ProbeError

CONTROL_BYTES: Final = 4096
# Fields of `struct control` in kernels.c, 8 bytes each.
LEVEL, STOP, OPERATIONS, BUSY_NS, FOOTPRINT, READY = range(0, 48, 8)
START_S: Final = 30.0  # for memory to be filled and a file to be written
STOP_S: Final = 1.0
POLL_S: Final = 0.005
SETTLE_S: Final = 20.0  # for the kernel of memory capacity to reach its level
GROWTH_BYTES: Final = 32 << 20


@dataclass(frozen=True)
class Counters:
    """Counters of a kernel at one moment.

    Attributes:
        at_s: moment, seconds of a monotonic clock.
        busy_s: time that the kernel worked or waited for its turn to work, seconds.
    """

    at_s: float
    operations: int
    busy_s: float


class Kernel:
    """Contention kernel; use as an asynchronous context manager.

    Args:
        processor: number of the processor that it runs on.
        size_bytes: bytes that it works on at full level.
        folder: folder for the file of the disk's kernel; None for that of temporary files.
    """

    def __init__(
        self, program: Path, source: str, *, processor: int, size_bytes: int, folder: Path | None = None
    ) -> None:
        self.source = source
        self._program = program
        self._processor = processor
        self._size_bytes = size_bytes
        self._folder = folder or Path(tempfile.gettempdir())
        self._process: asyncio.subprocess.Process | None = None
        self._shared: mmap.mmap | None = None

    async def __aenter__(self) -> Self:
        """Start the kernel at level 0 and wait until it is ready.

        Raises:
            ProbeError: it does not start; with its own reason.
        """
        number = os.memfd_create("kwiken-probe")  # shared memory without a name: nothing to remove
        try:
            os.ftruncate(number, CONTROL_BYTES)
            self._shared = mmap.mmap(number, CONTROL_BYTES)
            words = (self.source, number, os.getpid(), self._processor, self._size_bytes, self._folder)
            self._process = await asyncio.create_subprocess_exec(
                str(self._program),
                *map(str, words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(number,),
                start_new_session=True,
            )
        except OSError as error:
            raise ProbeError(
                f"the kernel of {self.source} cannot be started: {error.strerror or error}"
            ) from error
        finally:
            os.close(number)
        try:
            await self._until_ready()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the kernel: by its flag, and by SIGKILL if it does not heed that."""
        await self._end()

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._word(READY):
            if self._ended is not None:
                raise ProbeError(f"the kernel of {self.source} ended: {await self._reason()}")
            if time.monotonic() > deadline:
                raise ProbeError(f"the kernel of {self.source} was not ready within {START_S:g} s")
            await asyncio.sleep(POLL_S)

    @property
    def _ended(self) -> int | None:
        assert self._process is not None
        return self._process.returncode

    async def _reason(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        said = (await self._process.stderr.read(1000)).decode(errors="replace").strip()
        return said or f"exit code {self._ended}"

    async def _end(self) -> None:
        process, shared = self._process, self._shared
        self._process = self._shared = None
        if process is not None:
            assert shared is not None
            struct.pack_into("=Q", shared, STOP, 1)
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STOP_S):
                        await process.wait()
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
        if shared is not None:
            shared.close()

    def _word(self, offset: int) -> int:
        assert self._shared is not None, "use the kernel as an asynchronous context manager"
        return int(struct.unpack_from("=Q", self._shared, offset)[0])

    def set_level(self, level: float) -> None:
        """Set the level, 0 to 1; the kernel follows within 20 ms."""
        assert self._shared is not None, "use the kernel as an asynchronous context manager"
        struct.pack_into("=d", self._shared, LEVEL, level)

    async def settled(self, level: float) -> None:
        """Set the level and wait until it is reached, which takes time for memory capacity alone.

        Raises:
            ProbeError: the level is not reached in time.
        """
        self.set_level(level)
        await asyncio.sleep(4 * POLL_S)
        if self.source != "memory-capacity":
            return
        deadline = time.monotonic() + SETTLE_S
        while self.held_bytes < level * self._size_bytes - GROWTH_BYTES:
            if time.monotonic() > deadline or self._ended is not None:
                raise ProbeError(f"memory-capacity did not reach level {level:g} within {SETTLE_S:g} s")
            await asyncio.sleep(POLL_S)

    @property
    def held_bytes(self) -> int:
        """Memory that the kernel of memory capacity holds, bytes."""
        return self._word(FOOTPRINT)

    def counters(self) -> Counters:
        """Counters now.

        Raises:
            ProbeError: the kernel has ended.
        """
        if self._ended is not None:
            raise ProbeError(f"the kernel of {self.source} ended with exit code {self._ended}")
        return Counters(time.monotonic(), self._word(OPERATIONS), self._word(BUSY_NS) / 1e9)

    async def measure(self, seconds: float) -> Speed:
        """Measure the kernel's own speed over a window.

        Raises:
            ProbeError: the kernel has ended.
        """
        before = self.counters()
        await asyncio.sleep(seconds)
        return self.speed_since(before)

    def speed_since(self, before: Counters) -> Speed:
        """Speed since earlier counters.

        Raises:
            ProbeError: the kernel has ended.
        """
        now = self.counters()
        done, busy_s = now.operations - before.operations, now.busy_s - before.busy_s
        return Speed(done / max(now.at_s - before.at_s, 1e-9), done / busy_s if busy_s > 0 else 0.0)
