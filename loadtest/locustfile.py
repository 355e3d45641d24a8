"""Locustfile for Locust's own command: `locust -f loadtest/locustfile.py --host URL --rate 100`.

Works with and without `--headless`, and with `--processes` or `--master` and `--worker`. Files are named on
the command line only: a visitor of Locust's page can change numbers there, but must not be able to name a
file of this machine.
"""

from __future__ import annotations

from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.user import DagUser


class OpenLoopUser(DagUser):
    """Open-loop user with the settings of the command line and of Locust's page."""

    settings = LoadSettings(url="", rate=10)
