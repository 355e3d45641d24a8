"""Options of an open-loop user on Locust's command line and page, over the settings of its class."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from locust.argument_parser import LocustArgumentParser

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.settings import LoadSettings

PROCESSES: Final = ("poisson", "constant")
"""Arrivals that a visitor of the page may choose; others name a file."""


@dataclass(frozen=True, slots=True)
class _Option:
    field: str
    kind: Callable[[str], Any]
    text: str
    on_page: bool = True

    @property
    def name(self) -> str:
        return {"duration_s": "duration", "timeout_s": "request_timeout"}.get(self.field, self.field)


_OPTIONS: Final = (
    _Option("rate", float, "requests per second of one user; can be changed while the load runs"),
    _Option("arrivals", str, "poisson or constant; on the command line also a file"),
    _Option("duration_s", float, "seconds; empty: as the file of arrivals says, or endless"),
    _Option("zipf", float, "line k of the queries is drawn like 1/k^ZIPF"),
    _Option("timeout_s", float, "seconds for one request"),
    _Option("max_in_flight", int, "beyond it requests are dropped; over all processes"),
    _Option("seed", int, "of arrivals and queries"),
    _Option("queries", str, "a file with one query a line", on_page=False),
    _Option("body", str, "JSON body, or template with {query}", on_page=False),
    _Option("path", str, "what is asked for", on_page=False),
    _Option("method", str, "method of the requests", on_page=False),
    _Option("header_file", str, "a file with one header a line, Name: value", on_page=False),
    _Option("records", str, "file for one JSON line per request", on_page=False),
)


def add_options(parser: LocustArgumentParser, settings: LoadSettings | None) -> None:
    """Add the options of open-loop users to Locust's command line, and to its page where no file is named.

    Args:
        settings: defaults to show; None where several classes have their own.
    """
    for option in _OPTIONS:
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            type=option.kind,
            default=None if settings is None else getattr(settings, option.field),
            help=option.text,
            include_in_web_ui=option.on_page,
        )


def named_on_command_line(options: Namespace) -> dict[str, Any]:
    """Values of the options that a visitor of the page must not change, because they name files or paths."""
    return {
        option.name: getattr(options, option.name)
        for option in _OPTIONS
        if not option.on_page or option.field == "arrivals"
    }


def kept_from_the_page(options: Namespace, named: dict[str, Any]) -> dict[str, Any]:
    """Values to put back before a run: files are named on the command line only, not on the page."""
    back = dict(named)
    if getattr(options, "arrivals", None) in PROCESSES:
        del back["arrivals"]
    return back


def with_options(settings: LoadSettings, options: Namespace | None) -> LoadSettings:
    """Settings of a class with the options of the command line and the page in their place.

    Raises:
        InputError: a value from the page is not a number.
    """
    changes: dict[str, Any] = {}
    for option in _OPTIONS:
        value = getattr(options, option.name, None)
        if value is None or value == "":
            continue
        try:
            changes[option.field] = option.kind(value)
        except ValueError as error:
            raise InputError(f"must be a number; got {value!r}", where=option.name) from error
    return replace(settings, **changes)
