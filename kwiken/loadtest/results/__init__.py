"""Results of a load run: outcomes of requests, their records, statistics, and what limited the run."""

from __future__ import annotations

from kwiken.loadtest.results.limits import LoadLimits as LoadLimits
from kwiken.loadtest.results.outcome import DROPPED as DROPPED, RequestOutcome as RequestOutcome
from kwiken.loadtest.results.records import Records as Records
from kwiken.loadtest.results.report import ReportCollector as ReportCollector
from kwiken.loadtest.results.result import LoadResult as LoadResult, Progress as Progress
