"""Closed loop: each user waits for the answer, thinks for a second, and asks again.

Such users send less while the service is slow, so their p99 hides stalls; `open_loop.py` beside this file
shows them.

`locust -f loadtest/closed_loop.py --headless --users 20 --spawn-rate 20 --run-time 60s`
"""

from __future__ import annotations

from locust import HttpUser, constant, task


class ClosedLoopSearch(HttpUser):
    """Locust's own user, for a number of people at work rather than a rate."""

    host = "http://127.0.0.1:8080"
    wait_time = constant(1)

    @task
    def search(self) -> None:
        """Ask for one query."""
        self.client.post("/v1/request", json={"query": "asyncio gather"})
