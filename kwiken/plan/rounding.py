"""A plan without digits that mean nothing: milliseconds to a nanosecond, shares to nine digits."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
MS_PLACES = 6  # finer than any clock behind a trace
DIGITS = 9  # of a share
_TIMEOUTS = ("after_ms", "cutoff_ms", "wait_ms")
_LADDERS = ("before", "after")  # bounds by percentile


def tidied(struct: T) -> T:
    """The same plan, or part of one, with its numbers rounded, so that its file is easy to read and compare.

    A share of shards stays as it is: whether it asks for one shard more hangs on its last digit.
    """
    fields = {name: _tidy(getattr(struct, name), name) for name in struct.__struct_fields__}
    return msgspec.structs.replace(struct, **fields)


def _tidy(value: Any, field: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return tidied(value)
    if isinstance(value, dict):
        return {key: _tidy(item, field) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_tidy(item, field) for item in value)
    return _number(value, field) if isinstance(value, float) else value


def _number(value: float, field: str) -> float:
    if field == "progress":
        return value
    if field in _TIMEOUTS:
        return later(value)
    if field.endswith("_ms") or field in _LADDERS:
        return round(value, MS_PLACES)
    return float(f"{value:.{DIGITS}g}")


def later(ms: float) -> float:
    """A time-out with few digits, never before the one given: that may be a call's own latency.

    Such a call is in time; rounded down it would get a copy that nobody planned for.
    """
    near = round(ms, MS_PLACES)
    return near if near >= ms else round(near + 10**-MS_PLACES, MS_PLACES)
