"""Bound on the work that JSON text of a peer costs its decoder, which holds the event loop until its end."""

from __future__ import annotations

import re
from typing import Final

MAX_CONTAINERS: Final = 200_000  # lists and objects of a text: making them all takes about 0.1 s
MAX_EXTREMES: Final = 1000  # numbers beyond 1e200 or below 1e-300, of which each takes the decoder 12 us
_MARKS: Final = tuple(f"{e}{rest}".encode() for e in "eE" for rest in ("0", "2", "3", "+", "-0", "-3"))
_EXTREME: Final = re.compile(rb"[\[,:\s]-?[0-9][0-9.]*[eE](?:\+?0*[23]|-0*3)[0-9]{2}")


def excess_work(text: bytes) -> str | None:
    """Why a text takes too long to decode; None if it does not."""
    if len(text) <= MAX_EXTREMES:
        return None
    containers = text.count(b"[") + text.count(b"{")
    if containers > MAX_CONTAINERS:
        return f"it has {containers} lists and objects; {MAX_CONTAINERS} is the most"
    if sum(map(text.count, _MARKS)) > MAX_EXTREMES:  # a cheap bound, above the true number
        extremes = sum(1 for _ in _EXTREME.finditer(text))
        if extremes > MAX_EXTREMES:
            return f"it has {extremes} numbers beyond 1e200 or below 1e-300; {MAX_EXTREMES} is the most"
    return None
