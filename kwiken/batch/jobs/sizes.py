"""Input size of a recurring job, forecast from earlier runs at the same hour of the same kind of day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError

DAY_S: Final = 86_400.0
EPOCH_WEEKDAY: Final = 3  # 1 January 1970 was a Thursday, with Monday as 0
SATURDAY: Final = 5
WEEK: Final = 7
NEAR_S: Final = 1_800.0  # clock times that count as the same, half an hour either side


def predict_size(
    at_s: Sequence[float], size: Sequence[float], when_s: float, *, tell_weekends: bool = True
) -> float:
    """Mean size of earlier runs at the same time of day, of weekdays or of weekends as the day is.

    Args:
        at_s: times of submission of earlier runs, seconds since 1970.
        size: their sizes, in any unit.
        when_s: time of the run that is forecast, seconds since 1970.
        tell_weekends: whether weekends and weekdays are told apart.

    Raises:
        InputError: no earlier run at that time of day on such a day.
    """
    times, sizes = np.asarray(at_s, dtype=np.float64), np.asarray(size, dtype=np.float64)
    apart = np.abs((times - when_s + DAY_S / 2) % DAY_S - DAY_S / 2)
    counts = (times < when_s) & (apart <= NEAR_S)
    if tell_weekends:
        counts &= _weekend(times) == _weekend(np.array([when_s]))
    if not counts.any():
        raise InputError("no earlier run at this time of day on such a day, so its size cannot be forecast")
    return float(sizes[counts].mean())


def _weekend(times: Floats) -> Bools:
    """Whether each time lies on a Saturday or Sunday, UTC."""
    return np.asarray((np.floor(times / DAY_S) + EPOCH_WEEKDAY) % WEEK >= SATURDAY)
