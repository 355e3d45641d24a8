"""Runs of `kwiken probe` as processes of their own, and what they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.runtime.leftovers import groups_of, new_mark, processes_with

ROOT = Path(__file__).resolve().parents[3]
MARK = "KWIKEN_TEST_PROBE"


class ProbeRun:
    """A probe in a process of its own, with a folder for temporary files of its own.

    Args:
        folder: empty folder.
        words: arguments of `kwiken probe`.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self._mark = name, value = new_mark(MARK)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kwiken", "probe", *words],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.temporary), name: value},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def processes(self) -> list[str]:
        """Commands of all processes that come from this run, zombies left out."""
        return processes_with(self._mark)

    def groups(self) -> list[str]:
        """Control groups that this run made."""
        return groups_of(self.process.pid)

    def wait_for(self, condition: Callable[[], object], *, within_s: float = 60.0) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"did not happen in time; processes: {self.processes()}"
            assert self.process.poll() is None or self.process.returncode <= 0 or not self.processes(), (
                self.process.stderr.read() if self.process.stderr else ""
            )
            time.sleep(0.05)

    def close(self) -> None:
        """End the probe if it still runs."""
        self.process.kill()
        self.process.communicate()
