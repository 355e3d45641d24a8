"""Strict parser of untrusted JSON: bounded, no duplicate fields, no NaN; errors name the line or field."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from kwiken.base.errors import InputError

S = TypeVar("S")
MAX_BYTES: Final = 4 << 20  # of a document, by default
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")


class _NotJsonError(ValueError):
    """JSON that the standard library accepts and this parser refuses."""


def to_str(text: str | bytes, *, where: str, max_bytes: int = MAX_BYTES) -> str:
    """Decode text to a string, without a byte order mark.

    Args:
        text: text, or its UTF-8 bytes.
        where: source to name in errors, such as a file's path.
        max_bytes: maximum length, 1 or more.

    Raises:
        InputError: for text that is too large, empty, or not UTF-8 (names the line).
    """
    if len(text) > max_bytes:
        raise InputError(f"is larger than {max_bytes} bytes, the most that is read", where=where)
    source = text if isinstance(text, str) else _decode(text, where)
    source = source.removeprefix("\ufeff")
    if not source.strip():
        raise InputError("is empty", where=where)
    return source


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text", where=f"{where}:{line}") from error


def parse_json(text: str | bytes, *, where: str, max_bytes: int = MAX_BYTES) -> Any:
    """Parse JSON to plain Python values, more strictly than the standard library.

    Args:
        where: source to name in errors, such as a file's path.
        max_bytes: maximum length of the text, 1 or more.

    Raises:
        InputError: for broken syntax (names the line), a duplicate field, NaN or infinity, or a document that
            is nested too deep or too large.
    """
    source = to_str(text, where=where, max_bytes=max_bytes)
    try:
        return json.loads(
            source, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise InputError(f"broken JSON: {error.msg}", where=f"{where}:{error.lineno}") from error
    except RecursionError as error:
        raise InputError("is nested too deep", where=where) from error
    except ValueError as error:  # _NotJsonError, and integers with more digits than Python converts
        raise InputError(str(error), where=where) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _NotJsonError(f"the field {key!r} is given twice in one object")
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJsonError(f"{name} is not a number in JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _NotJsonError(f"{digits} is out of range")
    return number


def convert(raw: Any, kind: type[S], *, where: str) -> S:
    """Convert plain values to a struct; errors name the field first.

    Args:
        raw: plain values, such as parsed JSON.
        kind: msgspec struct or other type to convert to.

    Raises:
        InputError: for unknown or missing fields, wrong types, or values out of range.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise InputError(field_error(error), where=where) from error
    except UnicodeEncodeError as error:  # JSON can name half of a surrogate pair
        raise InputError(
            f"has a text with {error.object[error.start]!r}, half of a pair, which is no character",
            where=where,
        ) from error
    except RecursionError as error:
        raise InputError("is nested too deep", where=where) from error


def check_version(found: object, version: int, *, where: str) -> None:
    """Check the version of a document's format, before the document is converted.

    Args:
        found: value of the field `version`, as it was parsed.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for any other value; true and 1.0 are no versions.
    """
    if found != version or isinstance(found, bool | float):
        raise InputError(f"version must be {version}, not {found!r}", where=where)


def field_error(error: msgspec.ValidationError) -> str:
    """Message of a msgspec error with the field in front instead of a path at the end."""
    message = str(error).replace("Object contains unknown", "unknown").replace("Object missing", "missing")
    found = _PATH.search(message)
    if found is None or not found["path"]:
        return message
    return f"{found['path']}: {message[: found.start()]}"
