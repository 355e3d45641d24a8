"""Log file with a size limit, which a supervisor and its children append to.

All of them hold the same open file, so they cannot switch to another one: the supervisor copies the content
aside and truncates the file. Since all append, the next line is written at the new end. This limits
everything that ends up in the file, including what handlers and the interpreter print.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_own

MAX_LOG: Final = 8 << 20  # bytes
CHUNK: Final = 1 << 20  # bytes


class LogFile:
    """Log file that several processes write to.

    Args:
        path: path of the file; its previous content is kept beside it, with the suffix `.1`.
        most: size from which the file is truncated, bytes.
    """

    def __init__(self, path: Path, *, most: int = MAX_LOG) -> None:
        self._path = path
        self._aside = path.with_name(path.name + ".1")
        self._most = most

    def written_by(self, number: int) -> bool:
        """Whether a file descriptor of this process refers to this file, in append mode."""
        try:
            there, ours = self._path.lstat(), os.fstat(number)
            appends = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND
        except OSError:
            return False
        return bool(appends) and stat.S_ISREG(ours.st_mode) and os.path.samestat(there, ours)

    def shorten(self) -> bool:
        """Truncate the file if it has become too long; returns whether it was truncated.

        If the old lines cannot be copied, for example on a full disk, they are discarded: the limit has
            priority.
        """
        try:
            with os.fdopen(open_own(self._path, os.O_RDWR), "r+b", buffering=0) as log:
                size = os.fstat(log.fileno()).st_size
                if size <= self._most:
                    return False
                log.seek(size - self._most)
                try:
                    self._keep(log.fileno())
                except OSError:
                    self._aside.unlink(missing_ok=True)
                log.truncate(0)
        except (OSError, InputError):
            return False
        return True

    def _keep(self, number: int) -> None:
        fresh = self._aside.with_name(self._aside.name + ".new")
        fresh.unlink(missing_ok=True)  # then made anew: what a link there leads to is not written
        mode = stat.S_IMODE(os.fstat(number).st_mode)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as aside:
            left = self._most
            while left > 0 and (piece := os.read(number, min(CHUNK, left))):
                aside.write(piece)
                left -= len(piece)
        fresh.replace(self._aside)
