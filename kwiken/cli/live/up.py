"""`kwiken up`: starts and supervises local clusters."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note, say
from kwiken.base.errors import DefinitionError, InputError
from kwiken.cli.live.gateway.autopilot_beside import (
    AutopilotSettings,
    autopilot_command,
    autopilot_options,
    steered,
)
from kwiken.cli.live.gateway.option_file import read_option_file
from kwiken.cli.live.restart import RESTART
from kwiken.cli.live.server_options import (
    MAX_PORT,
    gateway_options,
    server_options,
)
from kwiken.cli.shared.additions import NodePlacing, Nodes, placing_options
from kwiken.cli.shared.options import NOT_NEGATIVE, load_service
from kwiken.runtime.base.log_events import Event, log_event

if TYPE_CHECKING:
    import asyncio

    from kwiken.model.service.service import Service
    from kwiken.runtime.cluster.cluster import Cluster
    from kwiken.runtime.cluster.layout import Layout
    from kwiken.runtime.cluster.state.files import StateFiles
    from kwiken.runtime.gateway.settings import GatewayConfig

LOG: Final = logging.getLogger("kwiken.up")
FOREIGN: Final = "a foreign service serves it, so there are no replicas to start"
TRACES: Final = "traces"  # in the folder of the state, for an autopilot without --traces
WORDS: Final = "kwiken.words"  # of the command line, in the context of click
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


class _Remembering(click.Command):
    """Command that remembers its words, with which a detached one is started."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; `kwiken.toml` gives what they leave out."""
        ctx.meta[WORDS] = tuple(args)
        if not set(args) & {"-h", "--help"}:
            ctx.default_map = read_option_file(self, ctx)
        return super().parse_args(ctx, args)


@click.command(cls=_Remembering, short_help="Start a local cluster: a gateway and every stage's replicas.")
@server_options(port=8080, what="the gateway")
@gateway_options
@click.argument("others", nargs=-1, metavar="[SERVICE]...")
@click.option(
    "--replicas",
    "replicas",
    multiple=True,
    metavar="STAGE=N",
    help="Number of replicas of a stage, in place of the service's own; repeatable.",
)
@placing_options
@click.option(
    "--gateways",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of gateways that share the port and keep one budget together.",
)
@click.option(
    "--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder for the cluster's state."
)
@autopilot_options
@click.option(
    "--reload",
    is_flag=True,
    help="Restart the processes when a .py file below this folder changes; for development.",
)
@click.option("--detach", is_flag=True, help="Return once the cluster is up; stop it with: kwiken down")
@click.option(
    "--unresponsive-after",
    "unresponsive_s",
    type=NOT_NEGATIVE,
    default=10.0,
    show_default=True,
    help="Seconds without a sign of life after which a process is killed and replaced; 0: never.",
)
def command(
    *,
    target: str,
    server: GatewayConfig,
    others: tuple[str, ...],
    replicas: tuple[str, ...],
    placing: NodePlacing | None,
    gateways: int,
    state: str,
    autopilot: AutopilotSettings,
    reload: bool,
    detach: bool,
    unresponsive_s: float,
) -> None:
    """Start the gateway and the replicas of SERVICE as processes, and replace those that die or hang.

    SERVICE is where the service is defined: MODULE:NAME, as kwiken.services.search:search, FILE.py:NAME, or
    FILE.yaml for a service whose stages are all served by others. The current folder is searched for modules
    first. The gateway's address is printed on stdout once requests are served.

    Several services get a gateway each, on ports that follow one another. Services that share nodes belong
    into one such command: targets are kept by one ledger of the nodes, and a second command on the same nodes
    is refused.

    What stands in the table [up] of kwiken.toml in the current folder need not be given: each option by its
    name, as port = 8080, and services = ["FILE.py:NAME"]. The command line has precedence.
    """
    autopilot.check(plan=server.plan, trace=server.trace)
    targets = [target, *others]
    services = load_services(targets)
    if len(services) > 1:
        _check_several(server.port, len(services), {"--plan": server.plan, "--grpc-port": server.grpc_port})
    counts = replica_counts(services, replicas)
    placed = placing.read(services) if placing is not None else None
    there = placed.replicas if placed is not None else {}
    if twice := [stage for name, of in counts.items() for stage in of if stage in there.get(name, {})]:
        raise InputError(f"the placement says it for stage {twice[0]!r}", where="--replicas")
    if server.plan is not None:
        _check_plan(server.plan, services[0])
    from kwiken.base.machine.reading import processors_given
    from kwiken.runtime.cluster.state.files import StateFiles

    files = [StateFiles(Path(state), service.name) for service in services]
    processes = sum(
        gateways + _replicas_of(service, counts[service.name], there.get(service.name, {}))
        for service in services
    )

    notices = {
        Event.GATEWAY_EXPOSED: _exposed_line(server.host, server.allowed_hosts),
        Event.CLUSTER_CROWDED: crowd_line(processes, processors_given()),
    }
    warnings = {event: line for event, line in notices.items() if line is not None}
    if detach:
        from kwiken.cli.live.gateway.detach import start_detached

        words = click.get_current_context().meta[WORDS]
        urls = start_detached(files, [word for word in words if word != "--detach"])
        for line in warnings.values():
            note(f"warning: {line}")
        for url in urls:
            say(url)
        return
    import asyncio

    import msgspec

    from kwiken.runtime.cluster.cluster import Cluster
    from kwiken.runtime.cluster.settings import ClusterSettings
    from kwiken.runtime.process.log_limits import set_up_logs

    set_up_logs(server.log_format, "supervisor", level=server.log_level)
    traces = server.traces
    if autopilot.wanted and traces is None:
        traces = str(Path(state) / TRACES)
    settings = ClusterSettings(
        **msgspec.structs.asdict(server) | {"traces": traces},
        gateways=gateways,
        unresponsive_s=unresponsive_s,
    )

    def start(place: int, layout: Layout | None) -> Cluster:
        return Cluster(
            targets[place],
            settings,
            port=server.port + place if server.port else 0,
            state=Path(state),
            replicas=counts[services[place].name],
            layout=layout,
        )

    starts = {service.name: functools.partial(start, place) for place, service in enumerate(services)}
    try:
        asyncio.run(
            _run(
                starts,
                placing,
                placed,
                files,
                warnings,
                functools.partial(_steering, autopilot, traces),
                watched=Path.cwd() if reload else None,
            )
        )
    except asyncio.CancelledError:  # told to stop before it was up
        raise click.Abort from None


def load_services(targets: Sequence[str]) -> list[Service]:
    """Load services that are to be started together.

    Args:
        targets: services as `load_service` takes them, one or more.

    Raises:
        InputError: one cannot be loaded, or two have the same name.
    """
    services: dict[str, Service] = {}
    for target in targets:
        service = load_service(target)
        if service.name in services:
            raise InputError(f"service {service.name!r} is given twice", where=target)
        services[service.name] = service
    return list(services.values())


def _replicas_of(service: Service, counts: Mapping[str, int], places: Mapping[str, Sequence[object]]) -> int:
    """Number of replicas of a service, all stages together."""
    sizes = dict(counts) | {stage: len(there) for stage, there in places.items()}
    own = {name: stage for name, stage in service.stages.items() if stage.remote_call is None}
    return sum(sizes.get(name, stage.replicas) for name, stage in own.items())


def _check_several(port: int, count: int, of_one: Mapping[str, object]) -> None:
    """Refuse options that cannot hold for several services."""
    for option, value in of_one.items():
        if value is not None:
            raise InputError("is for one service; give several services none", where=option)
    if port + count - 1 > MAX_PORT:
        raise InputError(
            f"{count} services need as many ports from {port} on, and {MAX_PORT} is the last one; "
            f"must be at most {MAX_PORT - count + 1}, or 0",
            where="--port",
        )


def replica_counts(services: Sequence[Service], texts: Sequence[str]) -> dict[str, dict[str, int]]:
    """Number of replicas by service and stage, from the texts of the option, `STAGE=N` each.

    Raises:
        InputError: for text of another form, a number out of range, a stage that is given twice, or a stage
            of several services.
        DefinitionError: for an unknown stage.
    """
    from kwiken.model.service.stage import MAX_REPLICAS

    counts: dict[str, dict[str, int]] = {service.name: {} for service in services}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise InputError(f"must be STAGE=N, not {text!r}", where="--replicas")
        having = [service for service in services if name in service.stages]
        if len(having) > 1:
            owners = " and ".join(service.name for service in having)
            raise InputError(
                f"stage {name!r} is one of {owners}; say it in the definition of the service",
                where="--replicas",
            )
        service = having[0] if having else services[0]
        stage = service[name].name  # raises for an unknown stage
        if service[stage].remote_call is not None:
            raise InputError(f"stage {stage!r}: {FOREIGN}", where="--replicas")
        if not (_WHOLE.fullmatch(number) and 1 <= int(number) <= MAX_REPLICAS):
            raise InputError(
                f"stage {stage!r}: must be a whole number from 1 to {MAX_REPLICAS}, not {number!r}",
                where="--replicas",
            )
        if stage in counts[service.name]:
            raise InputError(f"stage {stage!r} is given twice", where="--replicas")
        counts[service.name][stage] = int(number)
    return counts


def _exposed_line(host: str, allowed_hosts: Collection[str]) -> str | None:
    """Line on a gateway that other machines may reach; None if its address is on loopback."""
    from kwiken.runtime.gateway.live_page.allowed_origins import is_loopback

    if is_loopback(host):
        return None
    names = "" if allowed_hosts else ", under any host name (--allowed-host restricts the names)"
    return f"the gateway listens on {host}, so other machines may send it requests{names}"


def _check_plan(path: str, service: Service) -> None:
    """Refuse a bad plan before anything is started."""
    from kwiken.cli.shared.options import load_plan

    plan = load_plan(path)
    try:
        plan.check(service)
    except (InputError, DefinitionError) as error:
        raise InputError(str(error), where=path) from error


async def _run(
    starts: Mapping[str, Callable[[Layout | None], Cluster]],
    placing: NodePlacing | None,
    placed: Nodes | None,
    files: Sequence[StateFiles],
    warnings: Mapping[Event, str],
    steering: Callable[[Cluster, StateFiles], contextlib.AbstractAsyncContextManager[None]],
    watched: Path | None,
) -> None:
    """Serve until told to stop, on the nodes of a placement if there is one.

    Args:
        steering: keeps the autopilot of a cluster, if it has one.
        watched: folder whose changed sources restart the processes; None for none.
    """
    import asyncio

    stop, restart = asyncio.Event(), asyncio.Event()
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
    loop.add_signal_handler(RESTART, restart.set)
    async with contextlib.AsyncExitStack() as stack:
        keep = None
        if placed is None or placing is None:
            clusters = {name: await stack.enter_async_context(start(None)) for name, start in starts.items()}
        else:
            folder = files[0].folder
            clusters, keep = await stack.enter_async_context(placing.running(starts, placed, folder))
        up = True
        for event, line in warnings.items():
            log_event(LOG, event, line, logging.WARNING)
        for cluster, each in zip(clusters.values(), files, strict=True):
            count = sum(len(those) for those in cluster.replicas.values())
            line = f"{cluster.service.name} is up with {count} replicas; control token in {each.token}"
            log_event(LOG, Event.CLUSTER_UP, line)
            await stack.enter_async_context(steering(cluster, each))
        await stack.enter_async_context(_restarting(clusters.values(), restart, watched))
        for cluster in clusters.values():
            say(cluster.gateway_url)
        sys.stdout.flush()
        await (stop.wait() if keep is None else keep(stop))
        verb = "is" if len(clusters) == 1 else "are"
        log_event(LOG, Event.CLUSTER_STOPPING, f"{', '.join(clusters)} {verb} stopping")


@contextlib.asynccontextmanager
async def _steering(
    autopilot: AutopilotSettings, traces: str | None, cluster: Cluster, files: StateFiles
) -> AsyncIterator[None]:
    """Autopilot of a cluster, if it is wanted."""
    if not autopilot.wanted or traces is None:
        yield
        return
    name = cluster.service.name
    command = autopilot_command(autopilot, name, traces=traces, state=str(files.folder))
    async with steered(command, urls=cluster.gateway_urls, variables=cluster.client_variables):
        yield


@contextlib.asynccontextmanager
async def _restarting(
    clusters: Collection[Cluster], wanted: asyncio.Event, watched: Path | None
) -> AsyncIterator[None]:
    """Restart of clusters' processes whenever it is wanted, or sources below a folder change."""
    import asyncio

    from kwiken.cli.live.gateway.source_watch import watch_sources
    from kwiken.runtime.base.event_loop import cancel_and_wait

    async def restarts() -> None:
        while await wanted.wait():
            wanted.clear()
            for cluster in clusters:
                await cluster.restart()

    tasks = [asyncio.create_task(restarts())]
    if watched is not None:
        tasks.append(asyncio.create_task(watch_sources(watched, wanted.set)))
    try:
        yield
    finally:
        await cancel_and_wait(tasks)


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
