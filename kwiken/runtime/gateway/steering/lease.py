"""Lease on leadership: of several processes that could steer a service, the one that may act now.

The lease is a file with an end. The leader moves the end forward at each step; when it no longer does,
because it was killed, hangs or cannot write, another process takes the lease with a higher number. Gateways
refuse what comes with a lower number, so a leader that wakes up late changes nothing. A number is at least
the second in which it was taken: where the file was lost, the next one is higher than all that gateways know.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.machine.files import READABLE, open_own, own_folder, read_own, replace_own

LEASE_S: Final = 8.0  # a few steps of the loop
MAX_LEASE: Final = 4096  # bytes
MAX_AHEAD_S: Final = 60.0  # an end that is further away was written by a clock that was wrong


class LeaseText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of the file.

    Attributes:
        holder: name of the process that leads, unique among all.
        epoch: number of the lease; each new leader's is higher, and at least the second of its start.
        until_s: moment at which it ends, seconds since 1970.
    """

    holder: str
    epoch: int
    until_s: float


class Lease:
    """Lease of one process on leadership.

    Args:
        path: file of the lease; the lock beside it is held only while the file is read and written.
        holder: name of this process, unique among all.

    Attributes:
        epoch: number of the lease when this process last led; 0 before.
        leader: name of the process that leads, as far as it is known; None if nobody does.
    """

    def __init__(self, path: Path, holder: str) -> None:
        self._path = path
        self._lock = path.with_name(path.name + ".lock")
        self._holder = holder
        self.epoch = 0
        self.leader: str | None = None

    def hold(self, now_s: float) -> bool:
        """Take the lease, or move its end forward; returns whether this process leads.

        Args:
            now_s: present time, seconds since 1970.

        Raises:
            OSError: the folder cannot be written.
            InputError: the folder belongs to somebody else.
        """
        own_folder(self._path.parent)
        with os.fdopen(open_own(self._lock, os.O_RDWR | os.O_CREAT, READABLE), "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read()
            mine = known is not None and known.holder == self._holder
            if known is not None and not mine and now_s < known.until_s <= now_s + MAX_AHEAD_S:
                self.leader = known.holder
                return False
            if known is None or not mine:
                before = max(self.epoch, known.epoch if known is not None else 0)
                self.epoch = max(before + 1, int(now_s))
            self._write(LeaseText(holder=self._holder, epoch=self.epoch, until_s=now_s + LEASE_S))
            self.leader = self._holder
            return True

    def release(self) -> None:
        """End the lease, if this process holds it, so that another one need not wait.

        Raises:
            OSError: the folder cannot be written.
            InputError: the file belongs to somebody else.
        """
        with os.fdopen(open_own(self._lock, os.O_RDWR | os.O_CREAT, READABLE), "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read()
            if known is not None and known.holder == self._holder:
                self._write(LeaseText(holder=self._holder, epoch=self.epoch, until_s=0.0))

    def _read(self) -> LeaseText | None:
        """Content of the file; None if it is missing or torn, as after a crash of the machine."""
        try:
            return msgspec.json.decode(read_own(self._path, MAX_LEASE), type=LeaseText)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def _write(self, text: LeaseText) -> None:
        replace_own(self._path, msgspec.json.encode(text), READABLE)
