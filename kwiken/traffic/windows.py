"""Windows of the day: hours of weekdays and weekends for which traffic has a map and a rate of its own."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import numpy as np

from kwiken.base.arrays import Bools, Floats

DAY_S: Final = 86_400
HOUR_S: Final = 3600
_FIRST_WEEKDAY: Final = 3  # 1970-01-01 was a Thursday, counted from Monday as 0
_SATURDAY: Final = 5
MIN_DAYS: Final = 3  # of one kind, before windows of the day can be tried on a day that was left out
PARTS: Final = (1, 2, 4)  # windows of a day that are tried


class WindowDays(StrEnum):
    """Days on which a window of the day counts.

    Attributes:
        ALL: every day of the week.
        WEEKDAYS: Monday to Friday.
        WEEKEND: Saturday and Sunday.
    """

    ALL = "all"
    WEEKDAYS = "weekdays"
    WEEKEND = "weekend"


_Hour = Annotated[float, msgspec.Meta(ge=0, le=24)]


class DayWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hours of some days, in UTC.

    Attributes:
        from_h: first hour, 0 to 24.
        until_h: hour at which the window ends, above `from_h`, to 24.
    """

    days: WindowDays
    from_h: _Hour
    until_h: _Hour

    @property
    def name(self) -> str:
        """Days and hours as a text, such as `weekdays 06-12`."""
        return f"{self.days} {self.from_h:02g}-{self.until_h:02g}"

    def holds(self, at_s: Floats) -> Bools:
        """(n,) whether times lie in the window.

        Args:
            at_s: (n,) times, seconds since 1970.
        """
        hour = np.mod(at_s, DAY_S) / HOUR_S
        inside = (hour >= self.from_h) & (hour < self.until_h)
        if self.days is WindowDays.ALL:
            return np.asarray(inside)
        weekend = is_weekend(at_s)
        return np.asarray(inside & (weekend if self.days is WindowDays.WEEKEND else ~weekend))


WHOLE_DAY: Final = DayWindow(WindowDays.ALL, 0.0, 24.0)


def is_weekend(at_s: Floats) -> Bools:
    """(n,) whether times lie on a Saturday or a Sunday, in UTC.

    Args:
        at_s: (n,) times, seconds since 1970.
    """
    day = np.floor(at_s / DAY_S).astype(np.int64)
    return np.asarray((day + _FIRST_WEEKDAY) % 7 >= _SATURDAY)


def windows_in(parts: int, days: Sequence[WindowDays]) -> tuple[DayWindow, ...]:
    """Windows that divide some kinds of days evenly.

    Args:
        parts: number of windows of a day, 1 to 24.
        days: kinds of days; together they make up a week.
    """
    length = 24.0 / parts
    return tuple(
        DayWindow(kind, part * length, (part + 1) * length) for kind in days for part in range(parts)
    )


def candidate_windows(starts_s: Floats) -> list[tuple[DayWindow, ...]]:
    """Sets of windows that can be tried on days left out, the whole day first.

    Args:
        starts_s: (b,) starts of the bins with traffic, seconds since 1970.
    """
    found: list[tuple[DayWindow, ...]] = [(WHOLE_DAY,)]
    ends = np.unique(np.floor(starts_s / DAY_S))
    weekend = is_weekend(ends * DAY_S)
    if len(ends) >= MIN_DAYS:
        found += [windows_in(parts, (WindowDays.ALL,)) for parts in PARTS[1:]]
    if weekend.sum() >= 2 and (~weekend).sum() >= MIN_DAYS:  # noqa: PLR2004 - both days of a weekend
        kinds = (WindowDays.WEEKDAYS, WindowDays.WEEKEND)
        found += [windows_in(parts, kinds) for parts in PARTS]
    return [some for some in found if all(window.holds(starts_s).any() for window in some)]
