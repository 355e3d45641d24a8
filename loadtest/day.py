"""Load of a day: a smooth wave with its peak in the evening, here in ten minutes.

`locust -f loadtest/day.py --headless`
"""

from __future__ import annotations

import math
from typing import Final

from locust import LoadTestShape

from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.user import DagUser

DAY_S: Final = 600  # 86_400 for a day in real time
MEAN_PER_S: Final = 30
SWING: Final = 0.6  # share of the mean by which the peak exceeds it
PEAK_HOUR: Final = 20
MAX_STEP: Final = 100  # users a second: changes are not drawn out


class DaySearch(DagUser):
    """Open-loop load of one request per second for each user, so that the shape states a rate."""

    settings = LoadSettings(url="http://127.0.0.1:8080", rate=1, body='{"query": "asyncio gather"}')


class Day(LoadTestShape):
    """Requests per second by the time of the day; ends after one day."""

    def tick(self) -> tuple[int, float] | None:
        """Number of users, which is the number of requests per second; None ends the test."""
        passed_s = self.get_run_time()  # type: ignore[no-untyped-call]  # Locust's
        if passed_s >= DAY_S:
            return None
        hour = 24 * passed_s / DAY_S
        wave = math.cos(2 * math.pi * (hour - PEAK_HOUR) / 24)
        return round(MEAN_PER_S * (1 + SWING * wave)), MAX_STEP
