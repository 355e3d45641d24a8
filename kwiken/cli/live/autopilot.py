"""`kwiken autopilot`: tries plans on a share of a service's requests, keeps them or takes them back."""

from __future__ import annotations

import functools
import os
import secrets
import signal
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.base.errors import InputError
from kwiken.cli.live.gateway.autopilot_beside import AUTOPILOT_BUDGET
from kwiken.cli.live.gateway.remote import token_file_option, token_of
from kwiken.cli.shared.options import Real, json_option, needs_extra, service_name

if TYPE_CHECKING:
    import asyncio

    from kwiken.runtime.gateway.steering.gateways import Gateways


@click.command(short_help="Try plans on a running service, keep them or take them back.")
@click.argument("service", required=False)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="Gateway's address, for gateways that `kwiken up` did not start here; repeatable.",
)
@token_file_option
@click.option("--traces", metavar="TRACES", help="Folder or address of the gateways' traces to learn from.")
@click.option(
    "--state",
    metavar="DIR",
    default=".kwiken",
    show_default=True,
    help="Folder of the history, and of the lease by which several such loops agree.",
)
@click.option(
    "--budget",
    type=Real(0, 1, above=True),
    default=AUTOPILOT_BUDGET,
    show_default=True,
    help="Reissue budget that no plan exceeds, as a share of all work.",
)
@click.option("--resume", is_flag=True, help="Let a loop go on that stopped because a person acted.")
@click.option("--hold", is_flag=True, help="Keep the plan in force as it is, until --resume.")
@click.option("--history", is_flag=True, help="Print what the loop decided, and why.")
@json_option
@needs_extra("plan")
def command(
    *,
    service: str | None,
    urls: tuple[str, ...],
    token_file: str | None,
    traces: str | None,
    state: str,
    budget: float,
    resume: bool,
    hold: bool,
    history: bool,
    as_json: bool,
) -> None:
    """Steer SERVICE, or the service at --url, until told to stop.

    The loop learns from recent traces, plans, judges the plan on requests that it has not seen, and tries it
    on a tenth of the requests, then on half. It compares it with the requests that do not get it, and keeps
    it or takes it back. A person's `kwiken apply` stops it until --resume.
    """
    context = click.get_current_context()
    if resume + hold + history > 1:
        raise click.UsageError("--resume, --hold and --history exclude one another", context)
    if as_json and not history:
        raise click.UsageError("--json goes with --history", context)
    if token_file is not None and not urls:
        raise click.UsageError("--token-file goes with --url", context)
    if history:
        _show_history(Path(state), _named(service, Path(state)), as_json=as_json)
        return
    found, token = _gateways(Path(state), service, urls, token_file)
    import asyncio

    from kwiken.runtime.gateway.steering.gateways import Gateways

    gateways = Gateways(found, token)
    if resume or hold:
        asyncio.run(_let(gateways, go_on=resume))
        note(f"{', '.join(gateways.urls)}: the autopilot {'goes on' if resume else 'holds'}")
        return
    if traces is None:
        raise InputError("is needed: the folder or address of the gateways' traces", where="--traces")
    folder = Path(traces) if Path(traces).is_dir() else None
    asyncio.run(_steer(gateways, service, traces=traces, folder=folder, state=Path(state), budget=budget))


def _named(service: str | None, state: Path) -> str:
    if service is None:
        raise click.UsageError("name the SERVICE whose history is wanted", click.get_current_context())
    return service_name(service, state)


def _gateways(
    state: Path, service: str | None, urls: tuple[str, ...], token_file: str | None
) -> tuple[list[str], Callable[[], str]]:
    """Addresses of the gateways and what tells their token: of --url, or of what `kwiken up` started."""
    if urls:
        token_of(urls[0], token_file)
        return list(urls), functools.partial(token_of, urls[0], token_file)
    if service is None:
        raise click.UsageError("name a SERVICE that is up, or give --url", click.get_current_context())
    from kwiken.runtime.cluster.state.files import StateFiles

    files = StateFiles(state, service_name(service, state))
    found = files.read()
    if found is None or not any(each.identity.alive for each in found.gateways):
        raise InputError(
            f"service {service!r} is not up; start it with: kwiken up SERVICE, or give --url",
            where=str(state),
        )
    token = files.read_token()
    return [each.url for each in found.gateways], lambda: token


async def _let(gateways: Gateways, *, go_on: bool) -> None:
    failed: list[str] = []
    for client in gateways.clients.values():
        try:
            await client.let_autopilot(go_on=go_on)
        except InputError as error:
            failed.append(str(error))
    if failed:  # the others were told
        raise InputError("; ".join(failed))


async def _steer(
    gateways: Gateways,
    service: str | None,
    *,
    traces: str,
    folder: Path | None,
    state: Path,
    budget: float,
) -> None:
    """Steer until told to stop.

    Args:
        folder: folder of the traces, for the spans of the decisions; None where it is no folder.
    """
    import asyncio

    from kwiken.otel.write.observer import DecisionSpans
    from kwiken.runtime.base.event_loop import cancel_and_wait
    from kwiken.runtime.gateway.steering.steering import Steering, SteeringSettings

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    name = await _service_at(gateways, stop)
    if name is None:
        return
    if service is not None and name != service_name(service, state):
        raise InputError(f"serves {name!r}, not {service!r}", where=gateways.urls[0])
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    settings = SteeringSettings(service=name, traces=traces, state=state, budget=budget, holder=holder)
    spans = DecisionSpans(name, folder) if folder is not None else None
    steering = Steering(settings, gateways, say=lambda line: note(f"{name}: {line}"), spans=spans)
    tasks = [asyncio.create_task(steering.run()), asyncio.create_task(stop.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(tasks)
        if spans is not None:
            await asyncio.to_thread(spans.close)


async def _service_at(gateways: Gateways, stop: asyncio.Event) -> str | None:
    """Name of the service that the gateways serve, once one answers; None if told to stop before.

    Raises:
        InputError: a gateway refuses to answer, or there are more gateways than addresses.
    """
    import asyncio
    import contextlib

    from kwiken.runtime.gateway.control.client import NoAnswerError

    told = False
    while not stop.is_set():
        for url in gateways.urls:
            try:
                status = await gateways.clients[url].status()
            except NoAnswerError as error:
                if not told:
                    note(f"{error}; asked again until it does")
                continue
            count = len(status.get("gateways", ())) + len(status.get("gateways_silent", ()))
            if count > len(gateways.urls):
                raise InputError(
                    f"is one of {count} gateways, and each counts its own requests: "
                    "give --url for each of them",
                    where=url,
                )
            return status["service"]
        told = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
    return None


def _show_history(state: Path, service: str, *, as_json: bool) -> None:
    from kwiken.base.machine.files import read_own
    from kwiken.tail.autopilot.record import MAX_RECORD, AutopilotRecord

    path = state / f"{service}.autopilot"
    try:
        record = AutopilotRecord.from_json(read_own(path, MAX_RECORD, of_others=True), where=str(path))
    except FileNotFoundError as error:
        raise InputError(
            "there is no history: no autopilot has steered the service", where=str(path)
        ) from error
    if as_json:
        print_json(record)
        return
    rows = [
        (
            f"{datetime.fromtimestamp(each.at_s, UTC):%Y-%m-%d %H:%M:%S}",
            each.action.replace("_", " "),
            each.plan or "-",
            each.reason,
        )
        for each in record.entries
    ]
    print_table(f"{service}: {record.phase}", ("when (UTC)", "decision", "plan", "reason"), rows)
    say(f"{record.changes} plans tried, {record.useless} of them taken back")
