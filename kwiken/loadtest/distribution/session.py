"""Open-loop load of one Locust process: its share, its counts, and the end that all processes share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, cast
from weakref import WeakKeyDictionary

import gevent
from locust.dispatch import UsersDispatcher
from locust.env import Environment
from locust.runners import LocalRunner, MasterRunner, WorkerRunner

from kwiken.loadtest.distribution.options import kept_from_the_page, named_on_command_line
from kwiken.loadtest.distribution.share import Share, one_sender_each
from kwiken.loadtest.results.outcome import RequestOutcome

_log = logging.getLogger(__name__)
_SHARES: Final = "kwiken_shares"  # name among Locust's options, which it sends to all workers
_ENDED: Final = "kwiken_ended"  # message of a worker whose schedule is over, or could not start
_COUNTS: Final = "kwiken_open_loop"  # part of a worker's report


class SharingDispatcher(UsersDispatcher):
    """Locust's dispatcher with ramps and rebalancing as they are, and one open-loop user in each process.

    Args:
        classes: names of the open-loop user classes.
        publish: callback, called before each message to the processes, with the number of users asked for by
            class and the ids of the processes in ascending order.
    """

    def __init__(
        self,
        *arguments: Any,
        classes: list[str],
        publish: Callable[[dict[str, int], list[str]], None],
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._classes = classes
        self._publish = publish

    def __next__(self) -> dict[str, dict[str, int]]:
        placed, asked = one_sender_each(super().__next__(), self._classes)
        self._publish(asked, sorted(placed))
        return placed


class Session:
    """State of the open-loop users of one process, for as long as Locust's command runs.

    Args:
        classes: names of the open-loop user classes.
    """

    _of: ClassVar[WeakKeyDictionary[Environment, Session]] = WeakKeyDictionary()

    def __init__(self, environment: Environment, classes: list[str]) -> None:
        assert environment.parsed_options is not None
        self._environment = environment
        self._classes = classes
        self._named = named_on_command_line(environment.parsed_options)
        self._ended: set[str] = set()
        self._own: dict[str, int] = {}
        self._reported: dict[str, dict[str, int]] = {}
        Session._of[environment] = self
        runner, events = environment.runner, environment.events
        events.test_start.add_listener(self._reset)  # type: ignore[no-untyped-call]  # Locust's
        if isinstance(runner, WorkerRunner):
            events.report_to_master.add_listener(self._report)  # type: ignore[no-untyped-call]  # Locust's
            return
        events.worker_report.add_listener(self._take_report)  # type: ignore[no-untyped-call]  # Locust's
        environment.dispatcher_class = cast(
            "type[SharingDispatcher]", partial(SharingDispatcher, classes=classes, publish=self._publish)
        )
        if isinstance(runner, MasterRunner):
            runner.register_message(_ENDED, self._worker_ended)

    @classmethod
    def of(cls, environment: Environment) -> Session | None:
        """Session of an environment; None where Locust is used as a library."""
        return cls._of.get(environment)

    @property
    def counts(self) -> dict[str, Any]:
        """Requests of all processes by what became of them; on a master also those of each worker."""
        if not isinstance(self._environment.runner, MasterRunner):
            return dict(self._own)
        total: dict[str, Any] = {}
        for counts in self._reported.values():
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
        return {**total, "workers": dict(self._reported)} if total else {}

    def share(self, user_class: str) -> Share:
        """Share of this process in the load of a user class, as it is now."""
        runner, shares = self._environment.runner, vars(self._environment.parsed_options).get(_SHARES)
        if not isinstance(shares, Mapping):
            return Share()
        workers = list(shares["workers"])
        client = getattr(runner, "client_id", None)  # none of the processes for a runner without workers
        index = workers.index(client) if client in workers else 0
        return Share(users=shares["users"].get(user_class, 0), workers=len(workers), index=index)

    def count(self, outcome: RequestOutcome, late_ms: float) -> None:
        """Count one outcome, and a late start, for which Locust has no column."""
        if not self._own:
            self._own = {"ok": 0, "failed": 0, "dropped": 0, "late": 0}
        self._own["ok" if outcome.error is None else "dropped" if outcome.dropped else "failed"] += 1
        self._own["late"] += outcome.start_lag_ms > late_ms

    def log_counts(self) -> None:
        """Write the counts of this process to Locust's log."""
        if self._own:
            _log.info("open loop: %s", ", ".join(f"{name} {count}" for name, count in self._own.items()))

    def end(self, user_class: str, error: str | None = None) -> None:
        """Record that a schedule of this process is over; the test ends when all are, or at an error.

        Args:
            error: reason why the load could not start; None for a schedule that is over.
        """
        runner = self._environment.runner
        if isinstance(runner, WorkerRunner):
            runner.send_message(_ENDED, {"class": user_class, "error": error})
        else:
            self._take_end("local", user_class, error)

    def _worker_ended(self, *, msg: Any, **_: Any) -> None:
        self._take_end(msg.node_id, msg.data["class"], msg.data["error"])

    def _take_end(self, process: str, user_class: str, error: str | None) -> None:
        runner, options = self._environment.runner, self._environment.parsed_options
        assert runner is not None
        assert options is not None
        self._ended.add(f"{process} {user_class}")
        if error is not None:
            if isinstance(runner, MasterRunner):
                _log.error("%s", error)
            self._environment.process_exit_code = 2
        else:
            others = {user.__name__ for user in runner.user_classes} - set(self._classes)
            processes = (
                ["local"] if isinstance(runner, LocalRunner) else list(vars(options)[_SHARES]["workers"])
            )
            running = [name for name, users in vars(options)[_SHARES]["users"].items() if users]
            awaited = {f"{process} {name}" for process in processes for name in running}
            if others or awaited - self._ended:
                return
        # Not from here: Locust would wait for this very greenlet.
        gevent.spawn(runner.quit if options.headless else runner.stop)

    def _publish(self, users: dict[str, int], workers: list[str]) -> None:
        options = self._environment.parsed_options
        assert options is not None
        vars(options).update(kept_from_the_page(options, self._named))
        vars(options)[_SHARES] = {"users": users, "workers": workers}

    def _reset(self, **_: Any) -> None:
        self._ended.clear()
        self._own = {}
        self._reported.clear()

    def _report(self, *, data: dict[str, Any], **_: Any) -> None:
        data[_COUNTS] = dict(self._own)

    def _take_report(self, *, client_id: str, data: dict[str, Any]) -> None:
        if data.get(_COUNTS):
            self._reported[client_id] = data[_COUNTS]
