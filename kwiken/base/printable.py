"""Escaping of untrusted text for terminals, logs and documents: control and invisible characters."""

from __future__ import annotations

import re
from typing import Final

# Characters that Unicode classes as printable and a terminal does not show.
_INVISIBLE: Final = frozenset(
    chr(code)
    for codes in (
        (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),
        range(0x180B, 0x1810),
        range(0xFE00, 0xFE10),
        range(0xE0100, 0xE01F0),
    )
    for code in codes
)
_BYTE: Final = 0x100
_TWO_BYTES: Final = 0x10000


def printable(text: str, *, most: int | None = None) -> str:
    """Escape untrusted text to one line for a terminal or a log.

    Control characters, escape sequences, line ends, marks of writing direction and characters without width
    are replaced by escapes as in Python's `repr`.

    Args:
        text: text from a trace, a file or the network.
        most: maximum number of characters of the result, after which it is cut and ends in `...`; None for no
            limit.
    """
    if most is not None:
        text = text[: most + 1]  # escapes only lengthen a text
    if not (text.isprintable() and _INVISIBLE.isdisjoint(text)):
        text = "".join(c if _is_seen(c) else _spelt(c) for c in text)
    return text if most is None or len(text) <= most else f"{text[:most]}..."


def _is_seen(character: str) -> bool:
    return character.isprintable() and character not in _INVISIBLE


def _spelt(character: str) -> str:
    code = ord(character)
    if code < _BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _TWO_BYTES else f"\\U{code:08x}"


def printable_json(text: str) -> str:
    """Escape control and invisible characters in the strings of a JSON document; the values stay the same.

    Args:
        text: valid JSON, whose only whitespace outside strings is spaces and line ends.
    """
    if text.isascii() and "\x7f" not in text:
        return text  # JSON has no other control characters in its strings
    return re.sub(r"[^\n\x20-\x7e]", lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if _is_seen(character):
        return character
    code = ord(character)
    if code < _TWO_BYTES:
        return f"\\u{code:04x}"
    above = code - _TWO_BYTES  # JSON spells what is beyond two bytes as two surrogates of ten bits each
    return f"\\u{0xD800 | above >> 10:04x}\\u{0xDC00 | above & 0x3FF:04x}"
