"""The Locust user: one per process, which starts every request of the schedule when it is due."""

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

from kwiken.errors import InputError, KwikenError
from kwiken.loadtest.client import Client
from kwiken.loadtest.open_loop import OpenLoop, plan
from kwiken.loadtest.outcome import Outcome
from kwiken.loadtest.records import Records
from kwiken.loadtest.settings import LoadSettings, Prepared, prepare
from kwiken.loadtest.timer import Timer

_GRACE_S = 1.0
_log = logging.getLogger(__name__)


class RequestFailedError(Exception):
    """A request that was not answered by 200 to 299, as Locust's failure table shows it."""


class Greenlets:
    """The light-weight threads of `OpenLoop`: gevent's."""

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
        """End every request still under way, and the timer."""
        gevent.killall(list(self._live))
        self._timer.close()


class DagUser(User):
    """Open-loop load on a service's gateway; one of it makes the whole load of its process.

    Give `settings` in a subclass, or override `prepared`. In Locust's tables a request is named by its path,
    its time counts from the intended start, and one that was dropped is a failure without a time.

    Attributes:
        settings: what to send; Locust's host, when there is one, takes the place of its URL.
        open_loop: the schedule at work, None before it stands.
        finished: whether the schedule is over and every request answered.
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
        """The settings, read and checked; override to take them from elsewhere.

        Raises:
            InputError: there are none, or one of them is not what it should be.
        """
        if self.settings is None:
            raise InputError("are missing: give them in a subclass of DagUser", where="settings")
        return prepare(replace(self.settings, url=self.host or self.settings.url), endless=True)

    def on_ready(self) -> None:
        """Told when `open_loop` stands, before it starts."""

    def on_outcome(self, outcome: Outcome, epoch_s: float) -> None:
        """Told of every outcome. Override to keep them.

        Args:
            outcome: what became of one request.
            epoch_s: the run's start, seconds since 1970.
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
        # A full collection would hold all requests that are due meanwhile (57,000 objects, 40 ms and more).
        gc.collect()
        gc.freeze()
        self._closers.append(gc.unfreeze)

    @task
    def load(self) -> None:
        """Run the whole schedule once, then end this user; a mistake ends the whole test with one line."""
        try:
            self._open(self.prepared())
        except KwikenError as error:
            _log.error("%s", error)  # one line: the mistake is not in the code
            self._end_test()
            raise StopUser from error
        assert self.open_loop is not None
        self.on_ready()
        self.open_loop.run()
        self.open_loop.drain(self._ready.settings.timeout_s + _GRACE_S)
        self.finished = True
        raise StopUser

    def _end_test(self) -> None:
        options, runner = self.environment.parsed_options, self.environment.runner
        self.environment.process_exit_code = 2
        if runner is not None:
            # Not from here: Locust would wait for this very greenlet.
            gevent.spawn(runner.quit if options is not None and options.headless else runner.stop)

    def on_stop(self) -> None:
        """Give requests under way a moment, then end them."""
        if self.open_loop is not None:
            self.open_loop.drain(_GRACE_S)
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
        """Locust counts failures by their text; one object per reason is enough."""
        if error not in self._failures:
            self._failures[error] = RequestFailedError(error)
        return self._failures[error]


def running_users(environment: Environment) -> list[DagUser]:
    """The load users that run in this process."""
    runner = environment.runner
    greenlets = [] if runner is None else list(runner.user_greenlets)
    users = (greenlet.args[0] for greenlet in greenlets if greenlet.args)
    return [user for user in users if isinstance(user, DagUser)]
