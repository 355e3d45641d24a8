"""Open-loop load against a gateway: requests start when they are due, answered or not.

Importing this package loads neither gevent nor Locust; `DagUser` and `run_load` do, on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from loadtest._patching import without_patching

if TYPE_CHECKING:
    from loadtest._arrivals import Arrivals
    from loadtest._outcome import Outcome
    from loadtest._queries import Queries
    from loadtest._report import Collector, LoadReport
    from loadtest._run import LoadResult, Progress, run_load
    from loadtest._settings import LoadSettings
    from loadtest._user import DagUser

_LAZY = {
    "Arrivals": "loadtest._arrivals",
    "Collector": "loadtest._report",
    "DagUser": "loadtest._user",
    "LoadReport": "loadtest._report",
    "LoadResult": "loadtest._run",
    "LoadSettings": "loadtest._settings",
    "Outcome": "loadtest._outcome",
    "Progress": "loadtest._run",
    "Queries": "loadtest._queries",
    "run_load": "loadtest._run",
}

__all__ = [
    "Arrivals",
    "Collector",
    "DagUser",
    "LoadReport",
    "LoadResult",
    "LoadSettings",
    "Outcome",
    "Progress",
    "Queries",
    "run_load",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with without_patching():
        value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
