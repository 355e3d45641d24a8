"""Open-loop load against a gateway: requests start when they are due, answered or not.

Importing this package loads neither gevent nor Locust; `DagUser` and `run_load` do, on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.loadtest.result import LoadResult, Progress
    from kwiken.loadtest.run import run_load
    from kwiken.loadtest.settings import LoadSettings
    from kwiken.loadtest.user import DagUser

__all__ = ["DagUser", "LoadResult", "LoadSettings", "Progress", "run_load"]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.loadtest.result": (
            "LoadResult",
            "Progress",
        ),
        "kwiken.loadtest.run": ("run_load",),
        "kwiken.loadtest.settings": ("LoadSettings",),
        "kwiken.loadtest.user": ("DagUser",),
    },
    extra="load",
)
