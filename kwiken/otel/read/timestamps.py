"""Times as files state them: whole numbers on a clock that can be, or an error that names span and field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_NS: Final = (1 << 62) - 1  # the year 2116; sums and differences of such times still fit
_SHOWN: Final = 60


class Stated(NamedTuple):
    """What a span states of one time.

    Attributes:
        field: its name in the file.
        unit: of the value, in words.
        value: as it stands there.
        ns: nanoseconds in one unit.
    """

    field: str
    unit: str
    value: str | int
    ns: int = 1


def possible(times: Sequence[int]) -> bool:
    """Whether all of these nanoseconds lie between 1970 and 2116."""
    return not times or (min(times) >= 0 and max(times) <= MAX_NS)


def refused(trace_id: str, span_id: str, times: Sequence[Stated]) -> str | None:
    """Why a span's times cannot be; None where they can.

    Args:
        trace_id: of the span.
        span_id: of the span.
        times: of the span.
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
