# Made by: kwiken export kwiken.services.search:search --to compose --image kwiken:local -o runtime
"""Open-loop load for Locust: requests are sent on a schedule, whether or not earlier ones were answered."""

from __future__ import annotations

from kwiken.loadtest import DagUser, LoadSettings


class OpenLoopUser(DagUser):
    """Locust user; --host, --rate, --duration and --body of the command line replace what stands here."""

    settings = LoadSettings(url="", rate=10)
