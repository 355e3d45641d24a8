"""Queries from a file: popular ones are sent more often, as real users do.

Make your own file with `python -m kwiken.services.search queries -n 5000 -o queries.txt`, and name it on the
command line: `locust -f loadtest/queries.py --headless --queries queries.txt --zipf 0`
"""

from __future__ import annotations

from pathlib import Path

from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.user import DagUser


class QueriesSearch(DagUser):
    """Open-loop load with a query for each request, drawn by popularity from the file beside this one."""

    settings = LoadSettings(
        url="http://127.0.0.1:8080", rate=20, queries=str(Path(__file__).with_name("queries.txt")), zipf=1
    )
