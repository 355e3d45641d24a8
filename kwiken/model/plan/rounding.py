"""Rounding of a plan's numbers: milliseconds to a nanosecond, shares to nine significant digits."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
DECIMALS_OF_MS = 6  # finer than any clock that traces are taken with
DIGITS_OF_SHARE = 9
_TIMEOUTS = ("after_ms", "cutoff_ms", "wait_ms")
_LADDERS = ("before", "after")  # bounds by percentile, milliseconds


def rounded(struct: T) -> T:
    """Plan, or part of one, with its numbers rounded, so that its file is easy to read and compare.

    `progress`, a share of shards, is not rounded: its last digit can decide whether one shard more is needed.

    Args:
        struct: plan or part of a plan.
    """
    fields = {name: _rounded(getattr(struct, name), name) for name in struct.__struct_fields__}
    return msgspec.structs.replace(struct, **fields)


def _rounded(value: Any, field: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return rounded(value)
    if isinstance(value, dict):
        return {key: _rounded(item, field) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_rounded(item, field) for item in value)
    return _number(value, field) if isinstance(value, float) else value


def _number(value: float, field: str) -> float:
    if field == "progress":
        return value
    if field in _TIMEOUTS:
        return rounded_up_ms(value)
    if field.endswith("_ms") or field in _LADDERS:
        return round(value, DECIMALS_OF_MS)
    return float(f"{value:.{DIGITS_OF_SHARE}g}")


def rounded_up_ms(ms: float) -> float:
    """Time-out rounded up, milliseconds.

    A time-out may equal the latency of an observed call, which is then in time. Rounded down, the call would
    get a copy that is not in the plan.

    Args:
        ms: time-out, milliseconds.
    """
    near = round(ms, DECIMALS_OF_MS)
    return near if near >= ms else round(near + 10**-DECIMALS_OF_MS, DECIMALS_OF_MS)
