"""`kwiken up`: starts and supervises a local cluster."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.cli.shared import (
    NOT_NEGATIVE,
    allowed_hosts_option,
    bodies_option,
    bytes_of,
    load_service,
    note,
    otlp_option,
    say,
)
from kwiken.errors import DefinitionError, InputError

if TYPE_CHECKING:
    from kwiken.runtime.cluster import StateFiles
    from kwiken.service import Service

MAX_PORT: Final = 65_535


@click.command(short_help="Start a local cluster: a gateway and every stage's replicas.")
@click.argument("target", metavar="MODULE:SERVICE")
@click.option(
    "--port",
    type=click.IntRange(0, MAX_PORT),
    default=8080,
    show_default=True,
    help="Port of the gateway; 0: any free port.",
)
@click.option("--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder for its state.")
@click.option("--traces", metavar="DIR", help="Folder to write spans to.")
@otlp_option
@click.option("--plan", metavar="FILE", help="Plan to follow; read again when the file changes.")
@click.option("--detach", is_flag=True, help="Return once the cluster is up; stop it with: kwiken down")
@click.option(
    "--grace",
    "grace_s",
    type=NOT_NEGATIVE,
    default=10.0,
    show_default=True,
    help="Seconds for requests in flight to end at a stop.",
)
@click.option(
    "--unresponsive-after",
    "unresponsive_s",
    type=NOT_NEGATIVE,
    default=10.0,
    show_default=True,
    help="Seconds without a sign of life after which a process is killed and replaced; 0: never.",
)
@bodies_option
@allowed_hosts_option
def command(*, target: str, state: str, plan: str | None, detach: bool, **settings: Any) -> None:
    """Start the gateway and the replicas of MODULE:SERVICE as processes, and replace those that die or hang.

    MODULE:SERVICE is where the service is defined, for example kwiken.services.search:search. The current
    folder is searched first. The gateway's address is printed on stdout once requests are served.
    """
    service = load_service(target)
    if plan is not None:
        _check_plan(plan, service)
    from kwiken.runtime.cluster import StateFiles

    files = StateFiles(Path(state), service.name)
    if detach:
        from kwiken.cli.live.detach import start_detached

        say(start_detached(files, [target, "--state", state, *_arguments(plan, settings)]))
    else:
        import asyncio

        try:
            asyncio.run(_run(target, files, plan, settings))
        except asyncio.CancelledError:  # told to stop before it was up
            raise click.Abort from None


def _check_plan(path: str, service: Service) -> None:
    """Refuse a bad plan before anything is started."""
    from kwiken.cli.shared import load_plan

    plan = load_plan(path)
    try:
        plan.check(service)
    except (InputError, DefinitionError) as error:
        raise InputError(str(error), where=path) from error


async def _run(target: str, files: StateFiles, plan: str | None, settings: dict[str, Any]) -> None:
    import asyncio

    from kwiken.machine import processors_given
    from kwiken.runtime.cluster import Cluster

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    starting = asyncio.current_task()
    assert starting is not None

    def halt() -> None:
        if stop.is_set():
            return
        stop.set()
        if not up:
            starting.cancel()

    up = False
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, halt)
    cluster = Cluster(
        target,
        state=files.folder,
        port=settings["port"],
        traces=_path(settings["traces"]),
        otlp=settings["otlp"],
        plan=_path(plan),
        grace_s=settings["grace_s"],
        unresponsive_s=settings["unresponsive_s"],
        max_bodies=bytes_of(settings["bodies_mib"]),
        allowed_hosts=settings["allowed_hosts"],
    )
    async with cluster:
        up = True
        count = sum(len(those) for those in cluster.replicas.values())
        note(f"{cluster.service.name} is up with {count} replicas; control token in {files.token}")
        if (crowd := crowd_line(count + 1, processors_given())) is not None:
            note(crowd)
        say(cluster.gateway_url)
        sys.stdout.flush()
        await stop.wait()
        note(f"{cluster.service.name} is stopping")


def crowd_line(processes: int, processors: float) -> str | None:
    """Line on a machine with fewer processors than processes; None if there are enough.

    Args:
        processes: number of gateways and replicas, each of which can use one processor.
        processors: processors' worth of time that they may use.
    """
    if processes <= processors:
        return None
    return (
        f"{processes} processes share {processors:.3g} processors: under load calls and their copies wait "
        "for a processor, and latencies are not those of replicas on machines of their own"
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text is not None else None


def _arguments(plan: str | None, settings: dict[str, Any]) -> list[str]:
    """Options of this command line, for the detached process."""
    options = {
        "--plan": plan,
        "--traces": settings["traces"],
        "--otlp": settings["otlp"],
        "--port": settings["port"],
        "--grace": settings["grace_s"],
        "--unresponsive-after": settings["unresponsive_s"],
        "--bodies-mib": settings["bodies_mib"],
    }
    named = [(name, value) for name, value in options.items() if value is not None]
    named += [("--allowed-host", name) for name in settings["allowed_hosts"]]
    return [word for name, value in named for word in (name, str(value))]
