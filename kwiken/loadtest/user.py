"""Locust user that sends the open-loop load: one per process, with that process's share of the schedule."""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import gevent
from gevent import Greenlet
from gevent.event import Event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from kwiken.base.errors import InputError, KwikenError
from kwiken.loadtest.distribution.hooks import hook_into_locust
from kwiken.loadtest.distribution.options import with_options
from kwiken.loadtest.distribution.session import Session
from kwiken.loadtest.distribution.share import Share
from kwiken.loadtest.generator.clients import client_of
from kwiken.loadtest.generator.open_loop import OpenLoop, plan
from kwiken.loadtest.generator.shared_schedule import steered
from kwiken.loadtest.generator.timer import Timer
from kwiken.loadtest.inputs.arrivals import check_rate
from kwiken.loadtest.inputs.settings import LoadSettings, Prepared, prepare
from kwiken.loadtest.results.outcome import RequestOutcome
from kwiken.loadtest.results.records import Records

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
    """Locust user with open-loop load on a service's gateway.

    Give `settings` in a subclass, or override `prepared`. Each user that Locust is asked for (`-u`, a load
    shape, the page) stands for one schedule: with `rate=1` the number of users is the number of requests per
    second. Every process has one sender with an equal share, so workers divide the load.
    In Locust's tables a request is named by its path, its time counts from the intended start, and a dropped
    request is a failure without a time. Answers that stream have two rows more, which are in no total: the
    time to the first item, and the longest wait between two items.

    Attributes:
        settings: options of the run; Locust's host and the options of its command line and page replace those
            in them.
        open_loop: generator of the requests; None before the user has started.
        finished: True once the schedule is over and every request has ended.
    """

    abstract = True
    settings: ClassVar[LoadSettings | None] = None

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.open_loop: OpenLoop | None = None
        self.finished = False
        self._failures: dict[str, RequestFailedError] = {}
        self._closers: list[Callable[[], None]] = []
        self._records: Records | None = None
        self._session = Session.of(environment)
        self._refused = ""  # why the last rate from the page was refused

    def prepared(self) -> Prepared:
        """Checked settings; override to take them from elsewhere.

        Raises:
            InputError: there are no settings, or one of them is wrong.
        """
        if self.settings is None:
            raise InputError("are missing: give them in a subclass of DagUser", where="settings")
        asked = with_options(self.settings, self.environment.parsed_options)
        return prepare(replace(asked, url=self.host or self.settings.url), endless=True)

    @property
    def first_failure(self) -> str | None:
        """What the server said of the first request that it refused; None if it refused none."""
        return self._client.first_failure

    def on_ready(self) -> None:
        """Hook, called once `open_loop` is set and before the first request; does nothing by default."""

    def on_outcome(self, outcome: RequestOutcome, epoch_s: float) -> None:
        """Hook, called with every outcome; does nothing by default.

        Args:
            epoch_s: start of the run, seconds since 1970.
        """

    def _open(self, ready: Prepared) -> None:
        settings = ready.settings
        client = client_of(
            ready.target,
            ready.queries,
            method=settings.method,
            timeout_s=settings.timeout_s,
            headers=ready.headers,
        )
        self._client = client
        self._closers.append(client.close)
        client.check()
        share = self._share()
        if settings.records is not None:
            # Processes of one machine must not write over each other's file.
            self._records = Records(
                settings.records if share.workers == 1 else f"{settings.records}.{share.index}"
            )
            self._closers.append(self._records.close)
        greenlets = Greenlets()
        self._closers.append(greenlets.close)
        self._ready = ready
        self._rate_before = self._rate_now = self._stated_rate() or ready.arrivals.mean_rate
        if self._session is None:
            schedule = plan(ready.arrivals, ready.queries, settings.seed)
        else:
            schedule = steered(
                ready.arrivals,
                ready.queries,
                seed=settings.seed,
                level=self._level,
                index=share.index,
                workers=share.workers,
            )
        self.open_loop = OpenLoop(
            schedule,
            send=client.send,
            sink=self._note,
            threads=greenlets,
            max_in_flight=math.ceil(settings.max_in_flight / share.workers),
        )
        # A full garbage collection (57,000 objects, 40 ms and more) would delay all requests due meanwhile.
        gc.collect()
        gc.freeze()
        self._closers.append(gc.unfreeze)

    def _share(self) -> Share:
        return Share() if self._session is None else self._session.share(type(self).__name__)

    def _level(self) -> float:
        """Factor on the schedule as it started: this process's share, times a change of the rate since."""
        level = self._share().level
        try:
            wanted = self._stated_rate()
            if wanted is None:
                return level
            check_rate(wanted)
        except InputError as error:
            if self._refused != str(error):
                self._refused = str(error)
                _log.error("%s; the rate stays as it was", error)
            wanted = self._rate_now
        self._rate_now = wanted
        return level * wanted / self._rate_before

    def _stated_rate(self) -> float | None:
        """Rate of the class, or of the command line and the page in its place; None for that of a file."""
        return (
            None
            if self.settings is None
            else with_options(self.settings, self.environment.parsed_options).rate
        )

    @task
    def load(self) -> None:
        """Run the whole schedule once, then end this user; wrong settings end the test with one log line."""
        try:
            self._open(self.prepared())
        except KwikenError as error:
            _log.error("%s", error)  # without a traceback: the settings are wrong, not the code
            self._end(str(error))
            raise StopUser from error
        assert self.open_loop is not None
        self.on_ready()
        self.open_loop.run()
        self.open_loop.drain(self._ready.settings.timeout_s + _DRAIN_S)
        self.finished = True
        self._end()
        raise StopUser

    def _end(self, error: str | None = None) -> None:
        """Tell the other processes, and wait to be stopped: Locust would replace a user that left."""
        if self._session is not None:
            self._session.end(type(self).__name__, error)
            Event().wait()

    def on_stop(self) -> None:
        """Wait a second for unanswered requests, then end them."""
        if self.open_loop is not None:
            self.open_loop.drain(_DRAIN_S)
            if self._session is not None:
                self._session.log_counts()
        self._close()

    def _close(self) -> None:
        while self._closers:
            self._closers.pop()()

    def _note(self, outcome: RequestOutcome) -> None:
        assert self.open_loop is not None
        epoch_s = self.open_loop.epoch_s
        self.on_outcome(outcome, epoch_s)
        if self._session is not None:
            self._session.count(outcome, self._ready.settings.late_ms)
        if self._records is not None:
            self._records.add(outcome, epoch_s)
        target, settings = self._ready.target, self._ready.settings
        kind = "gRPC" if target.grpc else settings.method
        if outcome.error is None:
            for what, took_ms in (
                ("first item", outcome.first_item_ms),
                ("longest wait between items", outcome.longest_gap_ms),
            ):
                if not math.isnan(took_ms):
                    # Only these rows: an event for each would be a further request in all totals.
                    self.environment.stats.get(f"{target.path} {what}", kind).log(round(took_ms), 0)
        self.environment.events.request.fire(
            request_type=kind,
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


hook_into_locust(DagUser)
