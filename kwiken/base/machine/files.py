"""Files that are read within bounds, and files of this user alone, which nobody else can have prepared.

A file that a user names may be a link. A file of the state must not: whoever may write to its folder could
have it appended to, emptied or read in place of another one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, Final

from kwiken.base.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MIB: Final = 1 << 20
PRIVATE: Final = 0o600  # readable by this user only
READABLE: Final = 0o644
NO_LINK: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LINKS: Final = frozenset({errno.ELOOP, errno.EMLINK})  # errors by which systems report a link


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a whole regular file, or the one that a link leads to.

    Args:
        most: longest file that is read, bytes.

    Raises:
        OSError: the file is missing or cannot be read.
        InputError: a folder, a device, a pipe, or too long a file; names the path.
    """
    with open(path, "rb", opener=_open) as file:
        return _read(file.fileno(), path, most)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, or the one that a link leads to, for reading; the caller closes it.

    Raises:
        OSError: the file is missing or cannot be read.
        InputError: a folder, a device or a pipe; names the path.
    """
    file = open(path, "rb", opener=_open)  # noqa: SIM115 - the caller closes it
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise InputError("is not a regular file", where=str(path))


def own_folder(folder: Path) -> None:
    """Make a folder that this user alone may read, or check that nobody else may write to one there is.

    Raises:
        InputError: it belongs to somebody else, or others may write to it; names the folder.
        OSError: it cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise InputError("belongs to another user; name a folder of your own", where=str(folder))
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        import shlex

        raise InputError(
            f"others may write to it; forbid that with: chmod go-w {shlex.quote(str(folder))}",
            where=str(folder),
        )


def open_own(path: Path, flags: int, mode: int = PRIVATE, *, of_others: bool = False) -> int:
    """Open a file of this user without following a link; returns its number.

    Args:
        flags: how to open it, as `os.O_RDWR | os.O_CREAT`.
        mode: rights of a file that is created.

    Raises:
        InputError: a link, a file with a second name, another user's, or no regular file; names the path.
        OSError: it cannot be opened.
    """
    try:
        number = os.open(path, flags | NO_LINK, mode)
    except OSError as error:
        if error.errno in LINKS:
            raise InputError("is a link; remove it", where=str(path)) from error
        raise
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        reason = "is not a regular file"
    elif found.st_uid != os.geteuid() and not of_others:
        reason = "belongs to another user"
    elif found.st_nlink > 1:
        reason = "is a link to a file that has another name too; remove it"
    else:
        return number
    os.close(number)
    raise InputError(reason, where=str(path))


def read_own(path: Path, most: int, *, of_others: bool = False) -> bytes:
    """Read a whole file of this user; see `open_own`.

    Args:
        most: longest file that is read, bytes.

    Raises:
        InputError: as in `open_own`, or too long a file.
        OSError: the file is missing or cannot be read.
    """
    number = open_own(path, os.O_RDONLY, of_others=of_others)
    try:
        return _read(number, path, most)
    finally:
        os.close(number)


def replace_own(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Replace a file by one with this content, or leave it as it is.

    Raises:
        OSError: the file cannot be written.
    """
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, mode), "wb") as file:
            file.write(data)
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def _read(number: int, path: str | os.PathLike[str], most: int) -> bytes:
    if not stat.S_ISREG((known := os.fstat(number)).st_mode):
        raise InputError("is not a regular file", where=str(path))
    # The size that the system reports may be too low: 0, or that of a growing file.
    with open(number, "rb", closefd=False) as file:
        data = file.read(most + 1) if known.st_size <= most else b""
    if max(len(data), known.st_size) > most:
        bound = f"{most / MIB:g} MiB" if most >= MIB else f"{most} bytes"
        raise InputError(f"is larger than {bound}, the most that is read", where=str(path))
    return data


def _open(path: str, flags: int) -> int:
    """Open without blocking: a pipe without a writer would block for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
