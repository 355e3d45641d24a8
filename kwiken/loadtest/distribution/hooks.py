"""Hooks of open-loop users in Locust's command: options before its start, then checks and a page."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from locust import User, events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

from kwiken.base.errors import KwikenError
from kwiken.loadtest.distribution.options import add_options, with_options
from kwiken.loadtest.distribution.session import Session
from kwiken.loadtest.inputs.settings import LoadSettings, prepare

# Target of the check at the start, where the host is to be given on Locust's page.
_NOWHERE: Final = "http://127.0.0.1"


def hook_into_locust(base: type[User]) -> None:
    """Register the hooks for the subclasses of a user class; Locust's command alone calls them.

    Args:
        base: user class whose subclasses have `settings`.
    """

    def add_arguments(parser: LocustArgumentParser, **_: Any) -> None:
        classes = list(_concrete(base))
        add_options(parser, getattr(classes[0], "settings", None) if len(classes) == 1 else None)

    def ready(environment: Environment, **_: Any) -> None:
        classes = [user for user in environment.user_classes if issubclass(user, base)]
        if not classes or environment.parsed_options is None:
            return
        session = Session(environment, [user.__name__ for user in classes])
        for user in classes:
            _check(environment, getattr(user, "settings", None))
        if environment.web_ui is not None and environment.web_ui.app is not None:
            environment.web_ui.app.add_url_rule("/open-loop", "open_loop", lambda: session.counts)

    events.init_command_line_parser.add_listener(add_arguments)  # type: ignore[no-untyped-call]  # Locust's
    events.init.add_listener(ready)  # type: ignore[no-untyped-call]  # Locust's


def _concrete(base: type[User]) -> Iterable[type[User]]:
    """Subclasses that Locust starts users of."""
    for user in base.__subclasses__():
        if not user.abstract:
            yield user
        yield from _concrete(user)


def _check(environment: Environment, settings: LoadSettings | None) -> None:
    """End the command with one line if an option is wrong, before anything is sent."""
    if settings is None:
        return
    try:
        asked = with_options(settings, environment.parsed_options)
        prepare(replace(asked, url=environment.host or settings.url or _NOWHERE), endless=True)
    except KwikenError as error:
        print(f"kwiken: {error}", file=sys.stderr)  # noqa: T201 - before Locust's log exists
        sys.exit(2)
