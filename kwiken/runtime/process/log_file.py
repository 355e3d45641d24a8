"""Log file that a supervisor and its children append to, kept short by its supervisor.

All of them hold the same open file, so nobody can be told to open another one: what is in the file is
copied aside and the file is cut to nothing. Since all append, the next line comes at its new end. That
bounds all that ends up in the file, what handlers print and the interpreter's own words too.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Final

MAX_LOG: Final = 8 << 20
CHUNK: Final = 1 << 20


class LogFile:
    """A log file that others write to.

    Args:
        path: of it; what it held before is beside it, with `.1` after its name.
        most: bytes from which it is cut.
    """

    def __init__(self, path: Path, *, most: int = MAX_LOG) -> None:
        self._path = path
        self._aside = path.with_name(path.name + ".1")
        self._most = most

    def written_by(self, number: int) -> bool:
        """Whether an open file of this process is this very one, and appends."""
        try:
            there, ours = self._path.stat(), os.fstat(number)
            appends = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND
        except OSError:
            return False
        return bool(appends) and stat.S_ISREG(ours.st_mode) and os.path.samestat(there, ours)

    def shorten(self) -> bool:
        """Cut the file if it has become too long; whether it was cut.

        Where the old lines cannot be kept, on a full disk say, they are given up: the bound goes first.
        """
        try:
            with self._path.open("r+b", buffering=0) as log:
                size = os.fstat(log.fileno()).st_size
                if size <= self._most:
                    return False
                log.seek(size - self._most)
                try:
                    self._keep(log.fileno())
                except OSError:
                    self._aside.unlink(missing_ok=True)
                log.truncate(0)
        except OSError:
            return False
        return True

    def _keep(self, number: int) -> None:
        fresh = self._aside.with_name(self._aside.name + ".new")
        fresh.unlink(missing_ok=True)
        mode = stat.S_IMODE(os.fstat(number).st_mode)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as aside:
            left = self._most
            while left > 0 and (piece := os.read(number, min(CHUNK, left))):
                aside.write(piece)
                left -= len(piece)
        fresh.replace(self._aside)
