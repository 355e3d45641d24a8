"""Strict JSON from outside: bounded, no field twice, no NaN; errors name the line or the field."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from kwiken.errors import InputError

S = TypeVar("S")
MAX_BYTES: Final = 4 << 20
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")


class _NotJsonError(ValueError):
    """Valid syntax that no JSON writer should produce."""


def to_str(text: str | bytes, *, where: str, max_bytes: int = MAX_BYTES) -> str:
    """The text as a string, when it is not too large.

    Raises:
        InputError: too large, empty, or bytes that are not UTF-8 (names the line).
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
    """JSON to plain Python values; stricter than the standard library.

    Args:
        text: one document.
        where: named in errors.
        max_bytes: the largest text taken.

    Raises:
        InputError: broken syntax (names the line), a field given twice, NaN or infinity, too deep, too large.
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
    except ValueError as error:  # ours, and integers with more digits than Python converts
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
    """Plain values to a struct, with the field named first where it does not fit.

    Raises:
        InputError: unknown or missing fields, wrong types, values out of range.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise InputError(field_error(error), where=where) from error
    except RecursionError as error:
        raise InputError("is nested too deep", where=where) from error


def field_error(error: msgspec.ValidationError) -> str:
    """The message of msgspec with the field in front instead of a path at the end."""
    message = str(error).replace("Object contains unknown", "unknown").replace("Object missing", "missing")
    found = _PATH.search(message)
    if found is None or not found["path"]:
        return message
    return f"{found['path']}: {message[: found.start()]}"
