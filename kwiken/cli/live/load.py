"""`kwiken load`: sends open-loop load to a gateway."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import given, json_option, needs_extra, seed_option

if TYPE_CHECKING:
    from kwiken.loadtest.results.limits import LoadLimits
    from kwiken.loadtest.results.result import LoadResult, Progress

ALL_FAILED: Final = 1
"""Exit code of a run in which no request succeeded."""
EXCEEDED: Final = 4
"""Exit code of a run that exceeded a limit."""


@click.command(short_help="Send open-loop load to a gateway.")
@click.argument("url")
@click.option("--rate", type=float, help="Requests per second; with a file of arrivals its new mean.")
@click.option(
    "--duration", "duration_s", type=float, help="Seconds; a file of arrivals starts over at its end."
)
@click.option(
    "--arrivals",
    default="poisson",
    show_default=True,
    metavar="poisson|constant|FILE",
    help="Process of arrivals; FILE: requests per second, one number a line (constant:FILE: even gaps).",
)
@click.option(
    "--queries", metavar="FILE", help="One query a line, the most popular first; .jsonl: JSON bodies."
)
@click.option(
    "--body",
    metavar="JSON",
    help='Body; with --queries {query} marks its place.  [default: {"query": "{query}"}, without queries {}]',
)
@click.option("--zipf", type=float, default=1.0, show_default=True, help="Line k is drawn like 1/k^ZIPF.")
@click.option(
    "--path",
    default="/v1/request",
    show_default=True,
    help="Path of the requests; {query} in it takes the query, percent-encoded.",
)
@click.option(
    "--method",
    type=click.Choice(["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    default="POST",
    show_default=True,
    help="Method of the requests.",
)
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header of every request; repeatable."
)
@click.option(
    "--header-file", metavar="FILE", help="One header a line; secrets do not show in the list of processes."
)
@click.option(
    "--warmup",
    "warmup_s",
    type=float,
    default=0.0,
    show_default=True,
    help="First seconds, whose requests are sent but not counted.",
)
@click.option(
    "--timeout", "timeout_s", type=float, default=10.0, show_default=True, help="Seconds for one request."
)
@click.option(
    "--max-in-flight",
    type=int,
    default=1_000,
    show_default=True,
    help="Limit of unanswered requests; a request that is due beyond it is dropped and counted.",
)
@click.option(
    "--max-p99",
    "max_p99_ms",
    type=float,
    metavar="MS",
    help="Exit code 4 if the p99 of all requests, failures as endless, is above it.",
)
@click.option(
    "--max-first-item",
    "max_first_item_ms",
    type=float,
    metavar="MS",
    help="Exit code 4 if the p99 of first items of streams, failures as endless, is above it.",
)
@click.option(
    "--max-failed",
    "max_failed_percent",
    type=float,
    metavar="PERCENT",
    help="Exit code 4 if more of the requests failed or were dropped.",
)
@click.option("--records", metavar="FILE", help="Write one JSON line per request.")
@seed_option
@json_option
@needs_extra("load")
def command(
    *,
    as_json: bool,
    max_p99_ms: float | None,
    max_failed_percent: float | None,
    max_first_item_ms: float | None,
    **options: Any,
) -> int:
    """Send open-loop load to URL and report latency from each request's intended start.

    URL is a gateway's, http://127.0.0.1:8080 say, or grpc://127.0.0.1:9090; https and grpcs stand for TLS,
    with the certificates that KWIKEN_TLS_CERT, KWIKEN_TLS_KEY and KWIKEN_TLS_CA name. Requests start when
    they are due, answered or not: a stall shows in every request that was due during it.
    """
    from kwiken.loadtest.inputs.settings import LoadSettings
    from kwiken.loadtest.results.limits import LoadLimits
    from kwiken.loadtest.run import run_load

    limits = LoadLimits(max_p99_ms, max_failed_percent, max_first_item_ms)
    limits.check()
    if options["queries"] is None and (name := given("zipf")) is not None:
        raise InputError("has no effect without --queries", where=name)
    settings = LoadSettings(**options)
    result = run_load(settings, on_progress=_progress(settings) if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        note("")
    if as_json:
        print_json(result.to_json())
    else:
        _print(result)
    return _verdict(result, limits)


def _progress(settings: Any) -> Callable[[Progress], None]:
    """Build a progress line that is rewritten in place: drawing a bar would delay requests."""
    total = f" of {settings.duration_s:g} s" if settings.duration_s is not None else " s"

    def show(now: Progress) -> None:
        line = f"{now.seconds:5.0f}{total}  ok {now.ok}  failed {now.failed}  dropped {now.dropped}"
        sys.stderr.write(f"\r{line}  in flight {now.in_flight}   ")
        sys.stderr.flush()

    return show


def _print(result: LoadResult) -> None:
    report = result.report
    rows = [(name, str(count)) for name, count in report.requests.items()]
    rows += [(f"{name} per second", f"{rate:g}") for name, rate in report.rate.items()]
    rows += [(error, str(count)) for error, count in report.errors.items()]
    if report.requests["partial"]:
        rows.append(("mean utility", f"{report.utility:.6g}"))
    cut = f", the first {report.warmup_s:g} s not counted" if report.warmup_s else ""
    say(f"{report.duration_s:g} s at {result.ready.target.url}{cut}", "")
    print_table("Requests", ("", "count"), rows)
    say("")
    named = {
        "first item": report.first_item,
        "longest gap": report.longest_gap,
        "answered": report.latency,
        "failures as endless": report.latency_with_failures,
        "start lag": report.start_lag,
    }
    ladders = [ladder for ladder in named.values() if ladder is not None]
    columns = ("milliseconds", *(name for name, ladder in named.items() if ladder is not None))
    steps = [
        (name.removesuffix("_ms").replace("p999", "p99.9"), *(_cell(ladder[name]) for ladder in ladders))
        for name in report.latency
    ]
    print_table("Latency from the intended start", columns, steps)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _verdict(result: LoadResult, limits: LoadLimits) -> int:
    """Exit code of a run.

    Failed requests are data, not an error, unless all failed (1) or a limit is exceeded (4). A run without
    any answer is an error.

    Raises:
        InputError: when the run measured nothing, or its records are incomplete.
    """
    requests = result.report.requests
    if result.records_failure is not None:
        raise InputError(f"is not whole: {result.records_failure}", where=result.ready.settings.records)
    if result.interrupted is not None:
        return 128 + result.interrupted
    if not (requests["intended"] or result.answered):
        raise InputError("drew no request in so short a time; raise --rate or --duration", where="load")
    if not result.answered:
        reasons = ", ".join(f"{error} ({count})" for error, count in result.report.errors.items())
        raise InputError(
            f"answered none of {requests['intended']} requests: {reasons}", where=result.ready.target.url
        )
    all_failed = requests["intended"] and not requests["ok"]
    if all_failed:
        reasons = ", ".join(f"{error} ({count})" for error, count in result.report.errors.items())
        note(f"kwiken: not one of {requests['intended']} requests succeeded: {reasons}")
    if result.first_failure is not None:
        note(f"kwiken: the first answer that was no success: {result.first_failure}")
    for bottleneck in result.bottlenecks:
        note(f"kwiken: {bottleneck}")
    exceeded = limits.exceeded(result.report)
    for line in exceeded:
        note(f"kwiken: {line}")
    return EXCEEDED if exceeded else ALL_FAILED if all_failed else 0
