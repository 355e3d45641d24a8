"""Bounds on the length and number of span attribute values, so that a trace store's index stays small.

Most spans have the same attributes as many others. These are made once, and the encoder knows them again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

MAX_LENGTH: Final = 128
MAX_VALUES: Final = 1000
MAX_SHARED: Final = 4096
OTHER: Final = "(other)"
MAX_MESSAGE: Final = 200

Value = str | int | float | bool
Attributes = tuple[tuple[str, Value], ...]


class Labels:
    """Filter of text values: at most `MAX_LENGTH` characters each, and `MAX_VALUES` distinct values per key.

    Not thread-safe.
    """

    __slots__ = ("_seen", "_shared")

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {}
        self._shared: dict[Hashable, Attributes] = {}

    def shared(self, key: Hashable) -> Attributes | None:
        """Attributes that were shared by this key; None for none."""
        return self._shared.get(key)

    def share(self, key: Hashable, attributes: list[tuple[str, Value]]) -> Attributes:
        """Share attributes among all spans with a key; at most `MAX_SHARED` are kept.

        Args:
            key: everything that the attributes are made of.
            attributes: keys and values, in the order to write.
        """
        if len(self._shared) >= MAX_SHARED:
            self._shared.clear()
        shared = self._shared[key] = tuple(attributes)
        return shared

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
