"""Validation of span times as files state them; errors name span and field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_NS: Final = (1 << 62) - 1  # the year 2116; sums and differences of such times still fit
_SHOWN: Final = 60
_FIRST_NS: Final = 946_684_800_000_000_000  # the year 2000, before which nobody wrote spans
_UNITS: Final = (("nanoseconds", 1), ("microseconds", 10**3), ("milliseconds", 10**6), ("seconds", 10**9))


class Stated(NamedTuple):
    """One time of a span, as a file states it.

    Attributes:
        field: name of the field in the file.
        unit: unit of the value, in words.
        value: value as it stands in the file.
    """

    field: str
    unit: str
    value: str | int | None
    ns: int = 1


@dataclass(slots=True)
class Epoch:
    """Origin of the times of some traces, by the first of them: 1970, or the start of a simulation.

    A number that would be a time from 2000 to 2116 in a longer unit lies in the first weeks of 1970, so that
    it is refused. In a simulation such times are as good as any.
    """

    simulated: bool | None = None

    def possible(self, times: Sequence[int]) -> bool:
        """True if all of these nanoseconds lie between 1970 and 2116, and none is of another unit."""
        if not times:
            return True
        if self.simulated is None:
            self.simulated = 0 <= times[0] < _FIRST_NS and _unit_of(times[0]) is None
        least, most = min(times), max(times)
        if least < 0 or most > MAX_NS:
            return False
        if least >= _FIRST_NS or self.simulated:
            return True
        return not any(_is_of_another_unit(time) for time in times if time < _FIRST_NS)


def refused(trace_id: str, span_id: str, times: Sequence[Stated]) -> str | None:
    """Error message for a span's first invalid time; None if all are valid."""
    for stated in times:
        try:
            value: int | None = int(stated.value or 0)
        except ValueError:
            value = None
        if (
            value is not None
            and 0 <= value * stated.ns <= MAX_NS
            and not _is_of_another_unit(value * stated.ns)
        ):
            continue
        other = None if value is None else _unit_of(value)
        return (
            f"span {span_id[:_SHOWN]!r} of trace {trace_id[:_SHOWN]!r}: {stated.field} must be a whole "
            f"number of {stated.unit} since 1970, before 2116, not {str(stated.value)[:_SHOWN]!r}"
            + (f", which is a time in {other}" if other is not None else "")
        )
    return None


def _is_of_another_unit(time_ns: int) -> bool:
    """True if a time, in the first weeks of 1970, would be one from 2000 to 2116 in a longer unit."""
    return time_ns < _FIRST_NS and _unit_of(time_ns) is not None


def _unit_of(value: int) -> str | None:
    """Unit in which a number is a time from 2000 to 2116; None for none."""
    return next((unit for unit, ns in _UNITS if _FIRST_NS <= value * ns <= MAX_NS), None)
