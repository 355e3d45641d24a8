"""Results of a load run: outcomes of requests, their records, statistics, and what limited the run."""

from __future__ import annotations

from kwiken.loadtest.results.outcome import DROPPED, Outcome
from kwiken.loadtest.results.records import Records
from kwiken.loadtest.results.report import Collector
from kwiken.loadtest.results.result import LoadResult, Progress

__all__ = ["DROPPED", "Collector", "LoadResult", "Outcome", "Progress", "Records"]
