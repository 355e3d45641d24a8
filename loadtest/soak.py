"""Soak: a moderate load for four hours, with limits that decide the exit code.

`locust -f loadtest/soak.py --headless --csv soak`
"""

from __future__ import annotations

import logging
from typing import Any, Final

from locust import events
from locust.env import Environment

from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.user import DagUser

MAX_FAILED: Final = 0.001  # share of all requests
MAX_P99_MS: Final = 500


class SoakSearch(DagUser):
    """Open-loop load that lasts, to find what grows or leaks with time."""

    settings = LoadSettings(
        url="http://127.0.0.1:8080", rate=20, duration_s=4 * 3_600, body='{"query": "asyncio gather"}'
    )


@events.quitting.add_listener  # type: ignore[untyped-decorator]  # Locust's
def judge(environment: Environment, **_: Any) -> None:
    """Fail a run that exceeded a limit."""
    total = environment.stats.total
    p99_ms = total.get_response_time_percentile(0.99) or 0
    if total.fail_ratio > MAX_FAILED or p99_ms > MAX_P99_MS:
        logging.getLogger(__name__).error("failed %.4f of requests, p99 %.0f ms", total.fail_ratio, p99_ms)
        environment.process_exit_code = 1
