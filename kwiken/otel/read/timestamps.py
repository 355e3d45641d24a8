"""Validation of span times as files state them; errors name span and field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_NS: Final = (1 << 62) - 1  # the year 2116; sums and differences of such times still fit
_SHOWN: Final = 60


class Stated(NamedTuple):
    """One time of a span, as a file states it.

    Attributes:
        field: name of the field in the file.
        unit: unit of the value, in words.
        value: value as it stands in the file.
    """

    field: str
    unit: str
    value: str | int
    ns: int = 1


def possible(times: Sequence[int]) -> bool:
    """True if all of these nanoseconds since 1970 lie between 1970 and 2116."""
    return not times or (min(times) >= 0 and max(times) <= MAX_NS)


def refused(trace_id: str, span_id: str, times: Sequence[Stated]) -> str | None:
    """Error message for a span's first invalid time; None if all are valid.

    Args:
        times: times of the span, as stated.
    """
    for stated in times:
        try:
            there = 0 <= int(stated.value) * stated.ns <= MAX_NS
        except ValueError:
            there = False
        if not there:
            return (
                f"span {span_id[:_SHOWN]!r} of trace {trace_id[:_SHOWN]!r}: {stated.field} must be a whole "
                f"number of {stated.unit} since 1970, before 2116, not {str(stated.value)[:_SHOWN]!r}"
            )
    return None
