"""Load run inside this process, with Locust as a library: one environment, one runner, one user.

Importing this module starts gevent; `run_load` imports it when it is needed.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import gevent
from locust.env import Environment
from locust.runners import LocalRunner

from kwiken.base.errors import InputError
from kwiken.base.machine.processor_use import Reading, use_between
from kwiken.base.machine.reading import read_processors
from kwiken.loadtest.generator.clients import client_of
from kwiken.loadtest.inputs.settings import Prepared
from kwiken.loadtest.results.outcome import RequestOutcome
from kwiken.loadtest.results.records import Records
from kwiken.loadtest.results.report import ReportCollector
from kwiken.loadtest.results.result import LoadResult, Progress
from kwiken.loadtest.user import DagUser

_PROGRESS_S = 0.25


class LocalRun:
    """One load run.

    Args:
        records: file that every outcome is written to; None for none.
        on_progress: callback for progress, as in `run_load`; None for none.
    """

    def __init__(
        self, ready: Prepared, records: Records | None, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._ready = ready
        self._on_progress = on_progress
        self._collector = ReportCollector()
        self._progress = Progress()
        self._answered = 0
        self._signal: int | None = None
        self._users: list[DagUser] = []
        self._records = records
        self._before: Reading | None = None

    def go(self) -> LoadResult:
        """Send all requests and wait for their responses.

        Raises:
            InputError: the target cannot be reached.
        """
        self._check_target()
        runner = Environment(user_classes=[self._user_class()]).create_local_runner()
        gc.collect()
        gc.freeze()  # objects that stay are left out of later collections, which makes pauses shorter
        with ExitStack() as stack:
            self._take_signals(stack, runner)
            runner.start(1, spawn_rate=1)
            assert runner.spawning_greenlet is not None
            runner.spawning_greenlet.join()
            while runner.user_count:
                runner.user_greenlets.join(timeout=_PROGRESS_S)
                self._tell()
            runner.quit()
        return self._result()

    def _check_target(self) -> None:
        """Connect once before Locust starts: an unreachable target is one error line, not a failed test."""
        settings = self._ready.settings
        client = client_of(
            self._ready.target, self._ready.queries, method=settings.method, timeout_s=settings.timeout_s
        )
        client.check()
        client.close()

    def _user_class(self) -> type[DagUser]:
        """User class of this run. Locust makes the instance, so the run is bound into the class."""
        run = self

        class Load(DagUser):
            """User of this run, under the name that Locust shows."""

            def prepared(self) -> Prepared:
                return replace(run._ready, settings=replace(run._ready.settings, records=None))

            def on_ready(self) -> None:
                run._users.append(self)
                run._before = read_processors([os.getpid()])

            def on_outcome(self, outcome: RequestOutcome, epoch_s: float) -> None:
                run._note(outcome, epoch_s)

        return Load

    def _note(self, outcome: RequestOutcome, epoch_s: float) -> None:
        self._collector.add(outcome)
        if self._records is not None:
            self._records.add(outcome, epoch_s)
        self._progress.add(outcome)
        self._answered += outcome.status > 0

    def _take_signals(self, stack: ExitStack, runner: LocalRunner) -> None:
        """End the run early at the first SIGINT or SIGTERM; the results so far are still reported."""

        def stop(number: int) -> None:
            self._signal = number
            runner.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            handler: Any = gevent.signal_handler(number, stop, number)
            stack.callback(handler.cancel)

    def _tell(self) -> None:
        if self._on_progress is None or not self._users:
            return
        loop = self._users[0].open_loop
        assert loop is not None  # set before on_ready() is called
        self._progress.seconds = max(0.0, time.monotonic() - loop.started_at)
        self._progress.in_flight = loop.in_flight
        self._on_progress(self._progress)

    def _result(self) -> LoadResult:
        settings, duration_s = self._ready.settings, self._ready.arrivals.duration_s
        assert duration_s is not None  # prepare() refuses an endless run
        if not self._users:
            raise InputError("did not start the load", where="locust")
        after = read_processors([os.getpid()])
        use = use_between(self._before, after) if self._before is not None and after is not None else None
        if self._signal is not None:
            loop = self._users[0].open_loop
            assert loop is not None
            duration_s = min(duration_s, time.monotonic() - loop.started_at)
        if self._records is not None:
            self._records.close()
        return LoadResult(
            ready=self._ready,
            report=self._collector.report(
                duration_s=duration_s, warmup_s=settings.warmup_s, late_ms=settings.late_ms
            ),
            answered=self._answered,
            interrupted=self._signal,
            records_failure=None if self._records is None else self._records.failure,
            use=use,
            first_failure=self._users[0].first_failure,
        )
