"""Open-loop load generator: requests start on a schedule, whether or not earlier ones were answered.

Importing this package loads neither gevent nor Locust; using `DagUser` or calling `run_load` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwiken.base.lazy import lazy_names
from kwiken.loadtest.patching import without_patching

if TYPE_CHECKING:
    from kwiken.loadtest.inputs.settings import LoadSettings as LoadSettings
    from kwiken.loadtest.results.result import LoadResult as LoadResult, Progress as Progress
    from kwiken.loadtest.run import run_load as run_load
    from kwiken.loadtest.user import DagUser as DagUser

_load = lazy_names(__name__, __file__, extra="load")


def __getattr__(name: str) -> Any:
    with without_patching():  # `DagUser` imports Locust, which would patch the standard library
        return _load(name)
