"""Reading the small files that a user names: whatever stands behind a name, the read ends."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kwiken.errors import InputError


def read_file(path: Path, most: int) -> bytes:
    """A whole regular file, or the one that a link leads to.

    Args:
        path: of it.
        most: bytes; a longer one is refused.

    Raises:
        OSError: it is not there, or cannot be read.
        InputError: a folder, a device, a pipe, or too long; names it.
    """
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputError("is no regular file", where=str(path))
        data = file.read(
            most + 1
        )  # what is said of its size may be wrong: it may grow, or be of no size at all
    if len(data) > most:
        raise InputError(f"is larger than {most} bytes", where=str(path))
    return data


def _open(path: str, flags: int) -> int:
    """A pipe without a writer must not keep us waiting."""
    return os.open(path, flags | os.O_NONBLOCK)
