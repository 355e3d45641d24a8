"""Numbers formatted for readers."""

from __future__ import annotations

import math

_SECONDS_FROM_MS = 10_000
_NONE = "\N{EN DASH}"


def ms(value: float | None) -> str:
    """Format a time with three significant digits, in milliseconds, or in seconds from 10 s on."""
    if value is None or not math.isfinite(value):
        return _NONE
    if value >= _SECONDS_FROM_MS:
        return f"{_digits(value / 1000)} s"
    return f"{_digits(value)} ms"


def percent(share: float | None, *, places: int | None = None) -> str:
    """Format a share as a percentage; with two digits below ten percent unless `places` is given."""
    if share is None or not math.isfinite(share):
        return _NONE
    value = 100 * share
    if places is None:
        places = 2 if 0 < abs(value) < 1 else 1
    return f"{value:.{places}f}%"


def change(before: float, after: float) -> str:
    """Format the relative change from one number to another, with its sign."""
    if not before > 0:
        return _NONE
    share = after / before - 1
    sign = "+" if share > 0 else "\N{MINUS SIGN}" if share < 0 else "±"
    return f"{sign}{abs(100 * share):.0f}%"


def between(low: float, high: float, unit: str = "ms") -> str:
    """Format an interval: `12.1 to 14.0 ms`, or `3.9% to 5.1%`."""
    if unit == "%":
        return f"{percent(low)} to {percent(high)}"
    return f"{_digits(low)} to {_digits(high)} {unit}"


def count(value: int, noun: str) -> str:
    """Format a number with its noun in singular or plural."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def _digits(value: float) -> str:
    size = abs(value)
    if size == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(size)))
    return f"{value:.{min(places, 3)}f}"
