"""Process identity by pid and start time: a pid alone may have been reused by another process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

POLL_S: Final = 0.02  # interval of checks for the end of a process
STATE_FIELD: Final = 0
START_FIELD: Final = 19
USED_FIELDS: Final = slice(11, 15)  # of the process and of its children that it has waited for


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Identity of a process.

    Attributes:
        started: start time in the system's own form: pids are reused, start times are not.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """Identity of the process that has this pid now; None if there is none."""
        started = _started(pid)
        return cls(pid, started) if started is not None else None

    @property
    def alive(self) -> bool:
        """Whether this process is still running."""
        return _started(self.pid) == self.started

    def signal(self, number: int) -> bool:
        """Send a signal to this process and no other; returns whether it was still running."""
        if not self.alive:
            return False
        try:
            return _send(self, number)
        except ProcessLookupError:
            return False

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the process for at most some seconds; returns whether it ended."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True


if sys.platform == "linux":

    def _send(identity: Identity, number: int) -> bool:
        handle = os.pidfd_open(identity.pid)
        try:  # the handle refers to one process, so the checked process is the signalled one
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
    """Start time of a process; None if it is gone or a zombie."""
    if pid <= 0:
        return None
    return _started_linux(pid) if sys.platform == "linux" else _started_posix(pid)


def _started_linux(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may contain anything
    return None if fields[STATE_FIELD] in {"Z", "X"} else f"{boot}:{fields[START_FIELD]}"


def _started_posix(pid: int) -> str | None:
    found = subprocess.run(  # noqa: S603 - the only variable argument is an int
        ["/bin/ps", "-o", "lstart=,stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    text = " ".join(found.stdout.split()[:-1])
    return text if text and not found.stdout.strip().rpartition(" ")[2].startswith("Z") else None


def processor_time_s(pid: int) -> float | None:
    """Processor time of a process and its descendants, seconds; None without Linux's /proc, or if it is gone.

    Descendants that have ended count as soon as their parents have waited for them.
    """
    ticks = None
    for one in family(pid):
        with contextlib.suppress(OSError, ValueError):
            text = Path(f"/proc/{one}/stat").read_text(encoding="utf-8", errors="replace")
            fields = text[text.rindex(")") + 2 :].split()
            ticks = (ticks or 0) + sum(map(int, fields[USED_FIELDS]))
    return None if ticks is None else ticks / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and its descendants that are alive, parents before children."""
    found = [pid]
    for parent in found:
        found += _children(parent)
    return found


def _children(pid: int) -> Iterable[int]:
    """Children of a process, from each of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return found
