"""Spike: a quiet load that rises tenfold at once, stays for half a minute, and falls back.

`locust -f loadtest/spike.py --headless`
"""

from __future__ import annotations

from typing import Final

from locust import LoadTestShape

from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.user import DagUser

STEPS: Final = ((30, 10), (60, 100), (120, 10))  # end, seconds from the start, and requests per second
MAX_STEP: Final = 100  # users a second: the spike is not drawn out


class SpikeSearch(DagUser):
    """Open-loop load of one request per second for each user, so that the shape states a rate."""

    settings = LoadSettings(url="http://127.0.0.1:8080", rate=1, body='{"query": "asyncio gather"}')


class Spike(LoadTestShape):
    """Requests per second by steps; ends after the last."""

    def tick(self) -> tuple[int, float] | None:
        """Number of users, which is the number of requests per second; None ends the test."""
        passed_s = self.get_run_time()  # type: ignore[no-untyped-call]  # Locust's
        return next(((rate, MAX_STEP) for end_s, rate in STEPS if passed_s < end_s), None)
