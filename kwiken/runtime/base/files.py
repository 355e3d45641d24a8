"""Bounded reads of small files that a user names: devices, pipes and long files are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kwiken.base.errors import InputError


def read_file(path: Path, most: int) -> bytes:
    """Read a whole regular file, or the one that a link leads to.

    Args:
        most: longest file that is read, bytes.

    Raises:
        OSError: the file is missing or cannot be read.
        InputError: a folder, a device, a pipe, or too long a file; names the path.
    """
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputError("is not a regular file", where=str(path))
        # The size that the system reports may be wrong: 0, or too low for a growing file.
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"is larger than {most} bytes", where=str(path))
    return data


def _open(path: str, flags: int) -> int:
    """Open without blocking: a pipe without a writer would block for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
