"""Conversion of the decoder's validation errors into messages that a client can act on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_PLACE: Final = re.compile(r" - at `(?:key in )?\$\.?(?P<path>[^`]*)`\Z")
_KINDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_PARTS: Final = {"str": "letter", "array": "entry", "object": "field", "bytes": "byte"}
_REWRITES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"Object missing required field `(.*)`"), lambda m: f"the field {m[1]!r} is missing"),
    (re.compile(r"Object contains unknown field `(.*)`"), lambda m: f"unknown field {m[1]!r}"),
    (re.compile(r"Expected `(.+)`, got `(.+)`"), lambda m: f"must be {_kinds(m[1])}, not {_kinds(m[2])}"),
    (
        re.compile(r"Expected `(\w+)` of length (<=|>=) (\d+)"),
        lambda m: f"must have at {'most' if m[2] == '<=' else 'least'} {_many(int(m[3]), m[1])}",
    ),
    (re.compile(r"Expected `\w+` >= (\S+)"), lambda m: f"must be {m[1]} or more"),
    (re.compile(r"Expected `\w+` <= (\S+)"), lambda m: f"must be {m[1]} or less"),
    (re.compile(r"Expected `\w+` > (\S+)"), lambda m: f"must be more than {m[1]}"),
    (re.compile(r"Expected `\w+` < (\S+)"), lambda m: f"must be less than {m[1]}"),
    (re.compile(r"Input data was truncated"), lambda _: "the JSON ends too early"),
)


def plain_message(message: str) -> str:
    """Rewrite a decoder's message: the field comes first, and types are named in plain words.

    Args:
        message: message of `msgspec`; an unknown one stays as it is.
    """
    place = _PLACE.search(message)
    said = message[: place.start()] if place is not None else message
    for pattern, say in _REWRITES:
        found = pattern.fullmatch(said)
        if found is not None:
            said = say(found)
            break
    return f"{place['path']}: {said}" if place is not None and place["path"] else said


def _kinds(text: str) -> str:
    return " or ".join(_KINDS.get(kind, f"`{kind}`") for kind in text.split(" | "))


def _many(count: int, kind: str) -> str:
    part = _PARTS.get(kind, "entry")
    several = f"{part[:-1]}ies" if part.endswith("y") else f"{part}s"
    return f"{count} {part if count == 1 else several}"
