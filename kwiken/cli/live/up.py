"""`kwiken up`: starts and supervises a local cluster."""

from __future__ import annotations

import functools
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from kwiken.cli.live.placing import Placed, PlacementOptions, placement_options
from kwiken.cli.live.server_options import (
    ServerSettings,
    TraceSettings,
    allowed_hosts_option,
    grpc_port_option,
    plan_option,
    server_options,
    trace_options,
    transport_option,
)
from kwiken.cli.shared import NOT_NEGATIVE, load_service, note, say
from kwiken.errors import DefinitionError, InputError

if TYPE_CHECKING:
    import asyncio

    from kwiken.runtime.cluster import Cluster, StateFiles
    from kwiken.runtime.upkeep import Upkeep
    from kwiken.service import Service

FOREIGN: Final = "a foreign service serves it, so there are no replicas to start"
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


@click.command(short_help="Start a local cluster: a gateway and every stage's replicas.")
@server_options(port=8080, what="the gateway")
@trace_options
@click.option(
    "--replicas",
    "replicas",
    multiple=True,
    metavar="STAGE=N",
    help="Number of replicas of a stage, in place of the service's own; repeatable.",
)
@placement_options
@click.option(
    "--gateways",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of gateways that share the port; each keeps the budget of its own requests.",
)
@transport_option
@grpc_port_option
@click.option("--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder for its state.")
@plan_option
@click.option("--detach", is_flag=True, help="Return once the cluster is up; stop it with: kwiken down")
@click.option(
    "--unresponsive-after",
    "unresponsive_s",
    type=NOT_NEGATIVE,
    default=10.0,
    show_default=True,
    help="Seconds without a sign of life after which a process is killed and replaced; 0: never.",
)
@allowed_hosts_option
def command(
    *,
    server: ServerSettings,
    trace: TraceSettings,
    replicas: tuple[str, ...],
    placing: PlacementOptions,
    gateways: int,
    transport: Literal["http", "grpc"],
    grpc_port: int | None,
    state: str,
    plan: str | None,
    detach: bool,
    unresponsive_s: float,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Start the gateway and the replicas of MODULE:SERVICE as processes, and replace those that die or hang.

    MODULE:SERVICE is where the service is defined, for example kwiken.services.search:search. The current
    folder is searched first. The gateway's address is printed on stdout once requests are served.
    """
    service = load_service(server.target)
    counts = replica_counts(service, replicas)
    placed = placing.read(service)
    if twice := [stage for stage in (placed.replicas if placed else ()) if stage in counts]:
        raise InputError(f"the placement says it for stage {twice[0]!r}", where="--replicas")
    if plan is not None:
        _check_plan(plan, service)
    from kwiken.machine import processors_given
    from kwiken.runtime.cluster import StateFiles

    files = StateFiles(Path(state), service.name)
    own = {name: stage for name, stage in service.stages.items() if stage.remote_call is None}
    sizes = counts | ({stage: len(places) for stage, places in placed.replicas.items()} if placed else {})
    processes = gateways + sum(sizes.get(name, stage.replicas) for name, stage in own.items())

    def warn() -> None:
        _warn_of_strangers(server.host, allowed_hosts)
        if (crowd := crowd_line(processes, processors_given())) is not None:
            note(crowd)

    if detach:
        from kwiken.cli.live.detach import start_detached

        words = [server.target, *server.arguments(), *trace.arguments(), "--state", state]
        words += ["--gateways", str(gateways)]
        words += placing.arguments()
        words += ["--plan", plan] if plan is not None else []
        words += ["--unresponsive-after", str(unresponsive_s), "--transport", transport]
        words += ["--grpc-port", str(grpc_port)] if grpc_port is not None else []
        words += [word for text in replicas for word in ("--replicas", text)]
        words += [word for name in allowed_hosts for word in ("--allowed-host", name)]
        url = start_detached(files, words)
        warn()
        say(url)
        return
    import asyncio

    from kwiken.runtime.cluster import Cluster, ClusterSettings
    from kwiken.runtime.process import set_up_logs

    set_up_logs(server.log_format, "supervisor")
    settings = ClusterSettings(
        host=server.host,
        traces=_path(server.traces),
        otlp=server.otlp,
        trace=trace.mode,
        trace_share=trace.share,
        transport=transport,
        grpc_port=grpc_port,
        plan=_path(plan),
        grace_s=server.grace_s,
        unresponsive_s=unresponsive_s,
        max_bodies=server.max_bodies,
        metrics=server.metrics,
        metrics_otlp=server.metrics_otlp,
        log_format=server.log_format,
        allowed_hosts=allowed_hosts,
        gateways=gateways,
    )
    start = functools.partial(
        Cluster, server.target, settings, port=server.port, state=files.folder, replicas=counts
    )

    try:
        asyncio.run(_run(start, placed, files, warn))
    except asyncio.CancelledError:  # told to stop before it was up
        raise click.Abort from None


def replica_counts(service: Service, texts: Sequence[str]) -> dict[str, int]:
    """Number of replicas by stage, from the texts of the option, `STAGE=N` each.

    Args:
        service: service that the stages belong to.
        texts: texts of the option.

    Raises:
        InputError: for text of another form, a number out of range, or a stage that is given twice.
        DefinitionError: for an unknown stage.
    """
    from kwiken.service import MAX_REPLICAS

    counts: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise InputError(f"must be STAGE=N, not {text!r}", where="--replicas")
        stage = service[name].name
        if service[stage].remote_call is not None:
            raise InputError(f"stage {stage!r}: {FOREIGN}", where="--replicas")
        if not (_WHOLE.fullmatch(number) and 1 <= int(number) <= MAX_REPLICAS):
            raise InputError(
                f"stage {stage!r}: must be a whole number from 1 to {MAX_REPLICAS}, not {number!r}",
                where="--replicas",
            )
        if stage in counts:
            raise InputError(f"stage {stage!r} is given twice", where="--replicas")
        counts[stage] = int(number)
    return counts


def _warn_of_strangers(host: str, allowed_hosts: Sequence[str]) -> None:
    """Say that other machines may reach the gateway, if its address is not on loopback."""
    from kwiken.runtime.gateway import is_loopback

    if is_loopback(host):
        return
    names = "" if allowed_hosts else ", under any host name (--allowed-host restricts the names)"
    note(f"warning: the gateway listens on {host}, so other machines may send it requests{names}")


def _check_plan(path: str, service: Service) -> None:
    """Refuse a bad plan before anything is started."""
    from kwiken.cli.shared import load_plan

    plan = load_plan(path)
    try:
        plan.check(service)
    except (InputError, DefinitionError) as error:
        raise InputError(str(error), where=path) from error


async def _run(
    start: Callable[..., Cluster], placed: Placed | None, files: StateFiles, warn: Callable[[], None]
) -> None:
    """Serve until told to stop, on the nodes of a placement if there is one."""
    if placed is None:
        await _serve(start(), files, warn)
        return
    from kwiken.runtime.cluster import Layout
    from kwiken.runtime.node_classes import NodeLimits

    async with NodeLimits() as limits:
        for name, node in placed.nodes.items():
            limits.add_node(name, node.limit)
        note(f"nodes are played by {limits.method.value}")
        layout = Layout(limits=limits, nodes=placed.nodes, replicas=placed.replicas)
        cluster = start(layout=layout)
        if placed.adaptation is None or placed.seating is None:
            await _serve(cluster, files, warn)
            return
        from kwiken.runtime.upkeep import Upkeep

        upkeep = Upkeep(
            placed.adaptation,
            placed.seating,
            {cluster.service.name: cluster},
            limits,
            say=note,
            service_targets_ms=placed.service_targets_ms,
        )
        await _serve(cluster, files, warn, upkeep)


async def _serve(
    cluster: Cluster, files: StateFiles, warn: Callable[[], None], upkeep: Upkeep | None = None
) -> None:
    import asyncio

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
    async with cluster:
        up = True
        count = sum(len(those) for those in cluster.replicas.values())
        warn()
        note(f"{cluster.service.name} is up with {count} replicas; control token in {files.token}")
        say(cluster.gateway_url)
        sys.stdout.flush()
        if upkeep is None:
            await stop.wait()
        else:
            await _keep(upkeep, stop)
        note(f"{cluster.service.name} is stopping")


async def _keep(upkeep: Upkeep, stop: asyncio.Event) -> None:
    """Keep targets until told to stop; a failure ends the program."""
    import asyncio

    from kwiken.runtime.tasks import cancel_and_wait

    await upkeep.start_best_effort()
    stopped = asyncio.create_task(stop.wait())
    keeping = asyncio.create_task(upkeep.run())
    try:
        await asyncio.wait({stopped, keeping}, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            await keeping
    finally:
        await cancel_and_wait([stopped, keeping])


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
