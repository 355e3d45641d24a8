"""Locustfile for Locust's own command: `locust -f kwiken/loadtest/locustfile.py --host URL --rate 100`.

Works with and without `--headless`. Files are named on the command line only: a visitor of Locust's page can
change numbers there, but must not be able to name a file of this machine.
"""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from typing import Any, ClassVar

from locust import LoadTestShape, events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

from kwiken.base.errors import KwikenError
from kwiken.loadtest.inputs import LoadSettings, Prepared, parse_target, prepare
from kwiken.loadtest.results import Outcome
from kwiken.loadtest.user import DagUser, running_users

_log = logging.getLogger(__name__)
# Placeholder until a host is given on Locust's page or command line.
_NOWHERE = "http://127.0.0.1"
_FILES = ("arrivals", "queries", "body", "records", "path", "method")
_named: dict[str, Any] = {}


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]  # Locust's
def _arguments(parser: LocustArgumentParser, **_: Any) -> None:
    """Add the command-line options; Locust's page shows those that are not hidden."""
    hidden: Any = {"include_in_web_ui": False}
    parser.add_argument("--rate", type=float, default=10.0, help="requests per second; 0: as the file says")
    parser.add_argument(
        "--duration", type=float, default=0.0, help="seconds; 0: as the file says, or endless"
    )
    parser.add_argument(
        "--zipf", type=float, default=1.0, help="line k of the queries is drawn like 1/k^ZIPF"
    )
    parser.add_argument("--request-timeout", type=float, default=10.0, help="seconds for one request")
    parser.add_argument("--max-in-flight", type=int, default=1_000, help="beyond it requests are dropped")
    parser.add_argument("--seed", type=int, default=0, help="of arrivals and queries")
    parser.add_argument("--arrivals", default="poisson", help="poisson, constant or a file", **hidden)
    parser.add_argument("--queries", default=None, help="a file with one query a line", **hidden)
    parser.add_argument("--body", default=None, help="JSON body, or template with {query}", **hidden)
    parser.add_argument("--path", default="/v1/request", help="what is asked for", **hidden)
    parser.add_argument("--method", default="POST", choices=("POST", "GET"), **hidden)
    parser.add_argument("--records", default=None, help="file for one JSON line per request", **hidden)


def _settings(options: Namespace, host: str | None) -> LoadSettings:
    return LoadSettings(
        url=host or _NOWHERE,
        rate=options.rate or None,
        duration_s=options.duration or None,
        zipf=options.zipf,
        timeout_s=options.request_timeout,
        max_in_flight=options.max_in_flight,
        seed=options.seed,
        **_named,
    )


@events.init.add_listener  # type: ignore[untyped-decorator]  # Locust's
def _ready(environment: Environment, **_: Any) -> None:
    """Check the command line, keep the options that name files, and add a page for the open-loop counts."""
    options = environment.parsed_options
    assert options is not None
    _named.update({name: getattr(options, name) for name in _FILES})
    try:
        prepare(_settings(options, environment.host), endless=True)
    except KwikenError as error:
        print(f"kwiken: {error}", file=sys.stderr)  # noqa: T201 - before Locust's log exists
        sys.exit(2)
    if environment.web_ui is not None and environment.web_ui.app is not None:
        environment.web_ui.app.add_url_rule("/open-loop", "open_loop", _page(environment))


def _page(environment: Environment) -> Any:
    def counts() -> dict[str, Any]:
        users = [user for user in running_users(environment) if isinstance(user, OpenLoopUser)]
        return users[0].counts if users else {}

    return counts


class OpenLoopUser(DagUser):
    """Open-loop user with the settings of the command line, and of Locust's page once it was used."""

    started: ClassVar[int] = 0

    def prepared(self) -> Prepared:
        """Checked settings at the time of the start."""
        options = self.environment.parsed_options
        assert options is not None
        parse_target(self.host or "", "/")  # reports a missing host as such
        return prepare(_settings(options, self.host), endless=True)

    def on_ready(self) -> None:
        """Reset the counts at the start of a run."""
        OpenLoopUser.started += 1
        self.late_ms = LoadSettings(url=_NOWHERE).late_ms
        self.counts = {"ok": 0, "failed": 0, "dropped": 0, "late": 0}

    def on_outcome(self, outcome: Outcome, epoch_s: float) -> None:
        """Count dropped requests apart from failed ones, and late starts, which Locust does not."""
        del epoch_s
        fate = "ok" if outcome.error is None else "dropped" if outcome.dropped else "failed"
        self.counts[fate] += 1
        self.counts["late"] += outcome.start_lag_ms > self.late_ms

    def on_stop(self) -> None:
        """End the run and log the counts."""
        super().on_stop()
        if self.open_loop is None:
            return
        _log.info("open loop: %s", ", ".join(f"{name} {count}" for name, count in self.counts.items()))


class OpenLoopShape(LoadTestShape):
    """Load shape of exactly one user, until its schedule is over; more users would multiply the load."""

    _before = 0
    _seen = False

    def reset_time(self) -> None:
        """Reset the state; Locust calls this at each start."""
        super().reset_time()  # type: ignore[no-untyped-call]  # Locust's
        self._before, self._seen = OpenLoopUser.started, False

    def tick(self) -> tuple[int, float] | None:
        """Number of users and spawn rate; None ends the test. Locust calls this once a second."""
        assert self.runner is not None
        users = self.runner.user_count
        # A short schedule can start and end between two ticks, so users count their starts as well.
        self._seen = self._seen or users > 0 or OpenLoopUser.started > self._before
        return None if self._seen and not users else (1, 1)
