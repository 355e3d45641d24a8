"""Reader of text files given by users, bounded in bytes and lines."""

from __future__ import annotations

from kwiken.base.errors import InputError
from kwiken.base.machine.files import read_file

MAX_BYTES = 64 * 1024 * 1024
MAX_LINES = 1_000_000


def read_lines(path: str) -> list[str]:
    """Read all lines of a UTF-8 text file, stripped, without blank lines at the end.

    Raises:
        InputError: the file cannot be read, has more than 64 MiB or a million lines, or is not UTF-8; names
            the file.
    """
    try:
        data = read_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=path) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text", where=f"{path}:{line}") from error
    # Only \n and \r\n end a line: str.splitlines would also break at form feeds and the like.
    lines = [line.strip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) > MAX_LINES:
        raise InputError(f"has more than {MAX_LINES} lines", where=path)
    return lines
