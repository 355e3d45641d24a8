"""Forecast of demand for the next interval: history of the time of day, corrected by what is seen now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

DAYS: Final = 7  # of history that count
LOW, HIGH = 0.3, 0.7  # shares of wrong predictions at which the rule changes
WRONG: Final = 0.05  # relative deviation above which a prediction was wrong


@dataclass(eq=False)
class DemandForecaster:
    """Forecasts of many series at once, an interval at a time.

    Attributes:
        slots: number of intervals in a day.
        series: number of series that are forecast side by side.
        quantile: None for the published rule; else the share of intervals whose demand is to stay below the
            forecast, 0 to 1: the rule's past errors are added at this quantile.
    """

    slots: int
    series: int
    quantile: float | None = None
    _past: list[Floats] = field(default_factory=list)
    _errors: list[Floats] = field(default_factory=list)
    _predicted: Floats | None = None
    _wrong: Floats | None = None
    _made: int = 0

    @property
    def started(self) -> bool:
        """Whether any demand was observed, without which there is no forecast."""
        return bool(self._past)

    def observe(self, demand: Floats) -> None:
        """Take the demand of the interval that has ended.

        Args:
            demand: (n,) demand of each series, in its unit.
        """
        if self._predicted is not None and len(self._past) >= self.slots:
            deviation = np.abs(demand - self._predicted) / np.maximum(demand, 1e-12)
            missed = (deviation > WRONG).astype(np.float64)
            self._wrong = missed if self._wrong is None else self._wrong + missed
            self._made += 1
            self._errors.append(demand - self._predicted)
            del self._errors[: -self.slots]
        self._past.append(np.asarray(demand, dtype=np.float64))
        del self._past[: -self.slots * DAYS]

    @property
    def wrong_shares(self) -> Floats:
        """(n,) share of wrong predictions of each series, of those made with a day of history."""
        if self._wrong is None:
            return np.zeros(self.series)
        return self._wrong / self._made

    def forecast(self) -> Floats:
        """(n,) demand to expect in the next interval; what is seen now where there is no day of history."""
        seen = self._past[-1]
        same = self._past[-self.slots :: -self.slots]
        history = np.mean(same, axis=0) if len(self._past) >= self.slots else seen
        wrong = self.wrong_shares
        weight = np.where(wrong >= HIGH, 1.0, np.where(wrong < LOW, wrong**2, wrong))
        self._predicted = (1.0 - weight) * history + weight * seen
        if self.quantile is None or not self._errors:
            return self._predicted
        return np.maximum(self._predicted + np.quantile(self._errors, self.quantile, axis=0), 0.0)
