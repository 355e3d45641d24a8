"""Strict parser of HTTP/1 heads: malformed or ambiguous heads are refused."""

from __future__ import annotations

import re
from typing import Final

MAX_HEAD: Final = 32 << 10  # bytes
MAX_HEADERS: Final = 100
END: Final = b"\r\n\r\n"

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
# RFC 9110, section 5.5: visible characters, spaces, tabs, and bytes beyond ASCII, which are not interpreted.
_BAD_IN_VALUES = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
ONCE: Final = frozenset({"content-length", "host"})
MAX_KNOWN_NAMES: Final = 256
# Valid header names as they were sent, in lower case. The same few come with every message.
_known_names: dict[str, str] = {}


class BadHeadError(Exception):
    """The data is not a valid head of an HTTP/1 message."""


def split_head(data: bytes | bytearray) -> tuple[str, dict[str, str], int] | None:
    """Parse a head: first line, headers by name in lower case, and offset of the body; None if incomplete.

    The last value of a repeated header counts, but Content-Length and Host may occur only once.

    Raises:
        BadHeadError: the data cannot become a valid head.
    """
    end = data.find(END)
    if end < 0 and len(data) < MAX_HEAD + len(END):  # a part of END may have come
        return None
    if not 0 <= end <= MAX_HEAD:
        raise BadHeadError(f"the head is longer than {MAX_HEAD} bytes")
    text = data[:end].decode("latin-1")
    first, *lines = text.split("\r\n")
    if len(lines) > MAX_HEADERS:
        raise BadHeadError(f"more than {MAX_HEADERS} headers")
    clean = _BAD_IN_VALUES.search("".join((first, *lines))) is None  # one look for all of them
    if (
        not clean and _BAD_IN_VALUES.search(first) is not None
    ):  # a bare CR, which some take for the line's end
        raise BadHeadError(f"not a first line: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        given, colon, value = line.partition(":")
        name = _known_names.get(given) or _lower(given)
        if not (colon and name and (clean or _BAD_IN_VALUES.search(value) is None)):
            raise BadHeadError(f"not a header: {line[:80]!r}")
        if name in headers and name in ONCE:
            raise BadHeadError(f"{name} occurs twice")
        headers[name] = value.strip(" \t")
    return first, headers, end + len(END)


def _lower(name: str) -> str | None:
    """A header's name in lower case; None if it cannot be one."""
    if _NAME.match(name) is None:
        return None
    lower = name.lower()
    if len(_known_names) < MAX_KNOWN_NAMES:
        _known_names[name] = lower
    return lower


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
