"""Bounds on the length and number of span attribute values, so that a trace store's index stays small."""

from __future__ import annotations

from typing import Final

MAX_LENGTH: Final = 128
MAX_VALUES: Final = 1000
OTHER: Final = "(other)"
MAX_MESSAGE: Final = 200

Value = str | int | float | bool


class Labels:
    """Filter of text values: at most `MAX_LENGTH` characters each, and `MAX_VALUES` distinct values per key.

    Not thread-safe.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {}

    def __call__(self, key: str, value: str) -> str:
        """Value to write; `(other)` for a new value of a key that has `MAX_VALUES` already."""
        known = self._seen.get(key)
        if known is None:
            known = self._seen[key] = {}
        short = known.get(value)
        if short is None:
            if len(known) >= MAX_VALUES:
                return OTHER
            short = known[value] = shorten(value, MAX_LENGTH)
        return short


def shorten(text: str, limit: int = MAX_LENGTH) -> str:
    """Text cut to `limit` characters, on one line, valid as UTF-8."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if "\n" in text or "\r" in text:
        text = " ".join(text.split())
    return text.encode("utf-8", "replace").decode()
