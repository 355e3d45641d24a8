"""One stress-ng stressor that runs on and on; its count of operations is read while the stressor runs.

stress-ng starts processes for each run and tells its operations at the end. A start costs
milliseconds and is no part of the workload. So one run goes on, and the count is read where stress-ng
keeps it: in a word of memory that its processes share. The place of the word differs from release to
release. The counter is the one word that rises while the stressor runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.runtime.base.process_id import family

WORD_BYTES: Final = 8
START_S: Final = 20.0  # for the stressor to run and its counter to be found
LOOK_S: Final = 0.1  # between two looks at the shared memory
POLL_S: Final = 0.002  # between two looks at the counter
Words = NDArray[np.uint64]


class StressError(Exception):
    """A stressor does not run, or its counter cannot be found."""


class Stressor:
    """A stressor that runs while calls wait for its operations, and is stopped otherwise.

    Args:
        name: name of the stressor.
        options: its options of the command line.
        operations: operations of one call.

    Raises:
        StressError: stress-ng does not start, or no single counter is found.
    """

    def __init__(self, name: str, options: Sequence[str], operations: int) -> None:
        self._name = name
        self._operations = operations
        self.process = subprocess.Popen(
            ["stress-ng", f"--{name}", "1", *options, "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._memory = os.open(f"/proc/{self.process.pid}/mem", os.O_RDONLY)
            self._place = self._found()
            # Listed once the stressor runs: its processes stay the same from then on.
            self._family = tuple(family(self.process.pid))
        except BaseException:
            self.close()
            raise
        self._waiting = 0
        self._promised = self.count
        self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the stressor."""
        for process in family(self.process.pid):
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

    @property
    def count(self) -> int:
        """Operations since the start.

        Raises:
            StressError: the stressor has ended.
        """
        found = os.pread(self._memory, WORD_BYTES, self._place)
        if len(found) < WORD_BYTES or self.process.poll() is not None:
            raise StressError(f"stress-ng --{self._name} ended with exit code {self.process.poll()}")
        return int.from_bytes(found, "little")

    async def call(self) -> int:
        """Wait for the operations of one call; calls at once wait for one another's operations too."""
        if not self._waiting:
            self._promised = self.count
            self._signal(signal.SIGCONT)
        self._waiting += 1
        self._promised += self._operations
        goal = self._promised
        try:
            while self.count < goal:  # noqa: ASYNC110 - another process counts, and tells nobody
                await asyncio.sleep(POLL_S)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._signal(signal.SIGSTOP)
        return self._operations

    def _signal(self, number: signal.Signals) -> None:
        for process in self._family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _found(self) -> int:
        """Address of the counter: the one word of shared memory that rises in three looks."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            parts = list(_shared_parts(self.process.pid))
            looks = [[self._words(*part) for part in parts]]
            for _ in range(2):
                time.sleep(LOOK_S)
                looks.append([self._words(*part) for part in parts])
            if self.process.poll() is not None:
                break
            rising: list[int] = [
                start + WORD_BYTES * int(place)
                for (start, _), first, second, third in zip(parts, *looks, strict=True)
                for place in rising_words(first, second, third)
            ]
            if len(rising) == 1 and len(family(self.process.pid)) > 1:
                return rising[0]
        raise StressError(f"stress-ng --{self._name}: no single counter was found within {START_S:g} s")

    def _words(self, start: int, size: int) -> Words:
        found = os.pread(self._memory, size, start)
        return np.frombuffer(found.ljust(size, b"\0"), dtype=np.uint64)


def rising_words(first: Words, second: Words, third: Words) -> list[int]:
    """Places of the words that rise from look to look.

    Args:
        first: (n,) words.
        second: (n,) the same words later.
        third: (n,) the same words still later.
    """
    return [int(place) for place in np.flatnonzero((first < second) & (second < third))]


def _shared_parts(process: int) -> Iterator[tuple[int, int]]:
    """Start and bytes of the memory that a process shares with its children and may write."""
    for line in Path(f"/proc/{process}/maps").read_text(encoding="ascii", errors="replace").splitlines():
        words = line.split()
        if words[1] == "rw-s" and "/dev/zero" in words:
            start, end = (int(word, 16) for word in words[0].split("-"))
            yield start, end - start
