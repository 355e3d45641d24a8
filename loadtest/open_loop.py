"""Open loop: requests start at a stated rate, whether or not earlier ones were answered.

`locust -f loadtest/open_loop.py --headless --rate 50 --duration 60`
"""

from __future__ import annotations

from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.user import DagUser


class OpenLoopSearch(DagUser):
    """Open-loop load of one query; rate, arrivals and duration can be changed on Locust's page."""

    settings = LoadSettings(url="http://127.0.0.1:8080", rate=20, body='{"query": "asyncio gather"}')
