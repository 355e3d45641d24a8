"""Values of span attributes, kept short and few: a trace store dies of labels without bound."""

from __future__ import annotations

from typing import Final

MAX_LENGTH: Final = 128
MAX_VALUES: Final = 1000
OTHER: Final = "(other)"
MAX_MESSAGE: Final = 200

Value = str | int | float | bool


class Labels:
    """Bounds text values: each at most `MAX_LENGTH` characters, and at most `MAX_VALUES` of them per key.

    One thread uses it.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {}

    def __call__(self, key: str, value: str) -> str:
        """The value to write; `(other)` for a new one where the key has too many already."""
        known = self._seen.get(key)
        if known is None:
            known = self._seen[key] = {}
        short = known.get(value)
        if short is None:
            if len(known) >= MAX_VALUES:
                return OTHER
            short = known[value] = shorten(value, MAX_LENGTH)
        return short


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, on one line, valid as UTF-8."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if "\n" in text or "\r" in text:
        text = " ".join(text.split())
    return text.encode("utf-8", "replace").decode()
