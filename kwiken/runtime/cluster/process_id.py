"""Processes that are told from strangers: a pid alone may have gone to somebody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

POLL_S: Final = 0.02
STATE_FIELD: Final = 0
START_FIELD: Final = 19


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process.

    Attributes:
        pid: its number.
        started: when it was started, in the system's own form: numbers are given anew, moments are not.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The process that has this pid now; None where there is none."""
        started = _started(pid)
        return cls(pid, started) if started is not None else None

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        return _started(self.pid) == self.started

    def signal(self, number: int) -> bool:
        """Send a signal to that very process; whether it was there to get it."""
        if not self.alive:
            return False
        try:
            return _send(self, number)
        except ProcessLookupError:
            return False

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so many seconds; whether it came in time."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True


if sys.platform == "linux":

    def _send(identity: Identity, number: int) -> bool:
        handle = os.pidfd_open(identity.pid)
        try:  # the handle holds the process, so what is checked is what is signalled
            if identity.alive:
                signal.pidfd_send_signal(handle, number)
                return True
            return False
        finally:
            os.close(handle)

else:

    def _send(identity: Identity, number: int) -> bool:
        os.kill(identity.pid, number)
        return True


def _started(pid: int) -> str | None:
    """When a process was started; None where it is gone or dead and only not yet buried."""
    if pid <= 0:
        return None
    return _started_linux(pid) if sys.platform == "linux" else _started_posix(pid)


def _started_linux(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
    return None if fields[STATE_FIELD] in {"Z", "X"} else f"{boot}:{fields[START_FIELD]}"


def _started_posix(pid: int) -> str | None:
    found = subprocess.run(  # noqa: S603 - a whole number is all that is passed
        ["/bin/ps", "-o", "lstart=,stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    text = " ".join(found.stdout.split()[:-1])
    return text if text and not found.stdout.strip().rpartition(" ")[2].startswith("Z") else None
