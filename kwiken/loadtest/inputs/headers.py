"""Header fields that a user adds to every request, from the command line or a file."""

from __future__ import annotations

import re
from typing import Final

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.files import read_lines

MAX_HEADERS: Final = 64
MAX_VALUE: Final = 8 * 1024  # characters
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE: Final = re.compile(r"[\x20-\x7e\t]+")
_OWN: Final = {"connection", "content-length", "traceparent", "transfer-encoding"}

Headers = tuple[tuple[str, str], ...]


def parse_headers(lines: tuple[str, ...], path: str | None) -> Headers:
    """Name and value of each header field. Messages never repeat a value, which may be a secret.

    Args:
        lines: fields as `Name: value`, from the command line.
        path: file with one such field a line; None for none.

    Raises:
        InputError: a line is no field, or the generator sets that field itself; names the option or the line.
    """
    given = [(line, f"header {number}") for number, line in enumerate(lines, start=1)]
    if path is not None:
        found = read_lines(path)
        if not found:
            raise InputError("is empty; it needs one header a line, Name: value", where=path)
        given += [(line, f"{path}:{number}") for number, line in enumerate(found, start=1)]
    if len(given) > MAX_HEADERS:
        raise InputError(f"at most {MAX_HEADERS} headers; got {len(given)}", where="header")
    headers: list[tuple[str, str]] = []
    for line, where in given:
        name, mark, value = line.partition(":")
        value = value.strip()
        if not mark or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or len(value) > MAX_VALUE:
            raise InputError("must be Name: value, in visible ASCII", where=where)
        if name.lower() in _OWN:
            raise InputError(f"{name} is set by the generator itself", where=where)
        if name.lower() in {known.lower() for known, _ in headers}:
            raise InputError(f"{name} is given twice", where=where)
        headers.append((name, value))
    return tuple(headers)
