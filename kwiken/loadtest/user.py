"""Locust user that sends the open-loop load: one per process, with all requests of the schedule."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import gevent
from gevent import Greenlet
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from kwiken.base.errors import InputError, KwikenError
from kwiken.loadtest.generator import Client, OpenLoop, Timer, plan
from kwiken.loadtest.inputs import LoadSettings, Prepared, prepare
from kwiken.loadtest.results import Outcome, Records

_DRAIN_S = 1.0
_log = logging.getLogger(__name__)


class RequestFailedError(Exception):
    """Error of a request without an answer from 200 to 299, as Locust's failure table shows it."""


class Greenlets:
    """Threads of `OpenLoop`, as gevent's greenlets."""

    def __init__(self) -> None:
        self._timer = Timer()
        self._live: set[Any] = set()
        self.sleep_until = self._timer.sleep_until

    def spawn(self, work: Callable[..., None], *args: object) -> None:
        """Run `work` in its own greenlet."""
        self._live.add(Greenlet.spawn(self._run, work, args))

    def _run(self, work: Callable[..., None], args: tuple[object, ...]) -> None:
        try:
            work(*args)
        finally:
            self._live.discard(gevent.getcurrent())

    def give_way(self) -> None:
        """Let other greenlets run."""
        gevent.sleep(0)

    def close(self) -> None:
        """Kill the greenlets of unanswered requests and close the timer."""
        gevent.killall(list(self._live))
        self._timer.close()


class DagUser(User):
    """Locust user with open-loop load on a service's gateway; one user makes the whole load of its process.

    Give `settings` in a subclass, or override `prepared`. In Locust's tables a request is named by its path,
    its time counts from the intended start, and a dropped request is a failure without a time.

    Attributes:
        settings: options of the run; Locust's host, if given, replaces the URL in them.
        open_loop: generator of the requests; None before the user has started.
        finished: True once the schedule is over and every request has ended.
    """

    abstract = True
    fixed_count = 1
    settings: ClassVar[LoadSettings | None] = None

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.open_loop: OpenLoop | None = None
        self.finished = False
        self._failures: dict[str, RequestFailedError] = {}
        self._closers: list[Callable[[], None]] = []
        self._records: Records | None = None

    def prepared(self) -> Prepared:
        """Checked settings; override to take them from elsewhere.

        Raises:
            InputError: there are no settings, or one of them is wrong.
        """
        if self.settings is None:
            raise InputError("are missing: give them in a subclass of DagUser", where="settings")
        return prepare(replace(self.settings, url=self.host or self.settings.url), endless=True)

    def on_ready(self) -> None:
        """Hook, called once `open_loop` is set and before the first request; does nothing by default."""

    def on_outcome(self, outcome: Outcome, epoch_s: float) -> None:
        """Hook, called with every outcome; does nothing by default.

        Args:
            epoch_s: start of the run, seconds since 1970.
        """

    def _open(self, ready: Prepared) -> None:
        settings = ready.settings
        client = Client(
            ready.target, ready.queries.bodies, method=settings.method, timeout_s=settings.timeout_s
        )
        self._closers.append(client.close)
        client.check()
        if settings.records is not None:
            self._records = Records(settings.records)
            self._closers.append(self._records.close)
        greenlets = Greenlets()
        self._closers.append(greenlets.close)
        self._ready = ready
        self.open_loop = OpenLoop(
            plan(ready.arrivals, ready.queries, settings.seed),
            send=client.send,
            sink=self._note,
            threads=greenlets,
            max_in_flight=settings.max_in_flight,
        )
        # A full garbage collection (57,000 objects, 40 ms and more) would delay all requests due meanwhile.
        gc.collect()
        gc.freeze()
        self._closers.append(gc.unfreeze)

    @task
    def load(self) -> None:
        """Run the whole schedule once, then end this user; wrong settings end the test with one log line."""
        try:
            self._open(self.prepared())
        except KwikenError as error:
            _log.error("%s", error)  # without a traceback: the settings are wrong, not the code
            self._end_test()
            raise StopUser from error
        assert self.open_loop is not None
        self.on_ready()
        self.open_loop.run()
        self.open_loop.drain(self._ready.settings.timeout_s + _DRAIN_S)
        self.finished = True
        raise StopUser

    def _end_test(self) -> None:
        options, runner = self.environment.parsed_options, self.environment.runner
        self.environment.process_exit_code = 2
        if runner is not None:
            # Not from here: Locust would wait for this very greenlet.
            gevent.spawn(runner.quit if options is not None and options.headless else runner.stop)

    def on_stop(self) -> None:
        """Wait a second for unanswered requests, then end them."""
        if self.open_loop is not None:
            self.open_loop.drain(_DRAIN_S)
        self._close()

    def _close(self) -> None:
        while self._closers:
            self._closers.pop()()

    def _note(self, outcome: Outcome) -> None:
        assert self.open_loop is not None
        epoch_s = self.open_loop.epoch_s
        self.on_outcome(outcome, epoch_s)
        if self._records is not None:
            self._records.add(outcome, epoch_s)
        target, settings = self._ready.target, self._ready.settings
        self.environment.events.request.fire(
            request_type=settings.method,
            name=target.path,
            response_time=None if outcome.dropped else outcome.latency_ms,
            response_length=outcome.size,
            exception=None if outcome.error is None else self._failure(outcome.error),
            context={"trace_id": outcome.trace_id},
            response=None,
            start_time=epoch_s + outcome.intended_s,
            url=target.url,
        )

    def _failure(self, error: str) -> RequestFailedError:
        """Exception for a reason; one object per reason, because Locust counts failures by their text."""
        if error not in self._failures:
            self._failures[error] = RequestFailedError(error)
        return self._failures[error]


def running_users(environment: Environment) -> list[DagUser]:
    """Load users that run in this process."""
    runner = environment.runner
    greenlets = [] if runner is None else list(runner.user_greenlets)
    users = (greenlet.args[0] for greenlet in greenlets if greenlet.args)
    return [user for user in users if isinstance(user, DagUser)]
