"""Strict parser of HTTP/1 heads: malformed or ambiguous heads are refused."""

from __future__ import annotations

import re
from typing import Final

MAX_HEAD: Final = 32 << 10  # bytes
MAX_HEADERS: Final = 100
END: Final = b"\r\n\r\n"

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
# RFC 9110, section 5.5: visible characters, spaces, tabs, and bytes beyond ASCII, which are not interpreted.
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
ONCE: Final = frozenset({"content-length", "host"})


class BadHeadError(Exception):
    """The data is not a valid head of an HTTP/1 message."""


def split_head(data: bytes | bytearray) -> tuple[str, dict[str, str], int] | None:
    """Parse a head: first line, headers by name in lower case, and offset of the body; None if incomplete.

    The last value of a repeated header counts, but Content-Length and Host may occur only once.

    Raises:
        BadHeadError: the data cannot become a valid head.
    """
    end = data.find(END)
    if end < 0 and len(data) <= MAX_HEAD:
        return None
    if not 0 <= end <= MAX_HEAD:
        raise BadHeadError(f"the head is longer than {MAX_HEAD} bytes")
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    if len(lines) > MAX_HEADERS:
        raise BadHeadError(f"more than {MAX_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not (colon and _NAME.match(name) and _VALUE.match(value)):
            raise BadHeadError(f"not a header: {line[:80]!r}")
        name = name.lower()
        if name in ONCE and name in headers:
            raise BadHeadError(f"{name} occurs twice")
        headers[name] = value.strip(" \t")
    return first, headers, end + len(END)


def read_length(headers: dict[str, str]) -> int | None:
    """Length of the body, bytes; None without a Content-Length.

    Raises:
        BadHeadError: the value is not a number.
    """
    text = headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):  # noqa: PLR2004 - what 64 bits hold
        raise BadHeadError(f"not a Content-Length: {text[:40]!r}")
    return int(text)
