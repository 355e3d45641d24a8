"""Strict parser of untrusted TOML: bounded; errors name the line."""

from __future__ import annotations

import tomllib
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import to_str

MAX_BYTES: Final = 16 << 20  # of a document, by default


def parse_toml(text: str | bytes, *, where: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Parse TOML to plain Python values; a field given twice is an error of TOML itself.

    Args:
        where: source to name in errors, such as a file's path.
        max_bytes: maximum length of the text, 1 or more.

    Raises:
        InputError: for broken syntax (names the line), or a document that is nested too deep or too large.
    """
    source = to_str(text, where=where, max_bytes=max_bytes)
    try:
        return tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"broken TOML: {error}", where=where) from error
    except (RecursionError, ValueError) as error:  # ValueError: more digits than Python converts
        raise InputError("is nested too deep, or has a number that is too long", where=where) from error
