"""`kwiken stage`: runs one replica of one stage."""

from __future__ import annotations

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import DefinitionError
from kwiken.cli.live.server_options import ServerSettings, server_options
from kwiken.cli.shared.options import load_service


@click.command(short_help="Run one replica of one stage.")
@server_options(port=0, what="the replica")
@click.option("--stage", required=True, help="Name of the stage.")
@click.option("--node", metavar="NAME", help="Name of this machine in traces.  [default: its host name]")
@click.option(
    "--max-inflight",
    type=click.IntRange(1, 1_000_000),
    default=64,
    show_default=True,
    help="Largest number of calls at once; further calls are refused, and go to other replicas.",
)
def command(*, server: ServerSettings, stage: str, node: str | None, max_inflight: int) -> None:
    """Run one replica of a stage of SERVICE (MODULE:NAME or FILE.py:NAME) until told to stop.

    Give its address to the gateway: kwiken serve --replica STAGE=HOST:PORT.
    """
    if server.metrics == "token":
        raise click.UsageError("a replica has no token; --metrics must be open or off")
    service = load_service(server.target)
    name = service[stage].name
    if service[name].remote_call is not None:
        raise DefinitionError("a foreign service serves it, so there is no replica to run", stage=name)
    import socket

    from kwiken.runtime.process.server_process import run_server
    from kwiken.runtime.process.specs import ReplicaSpec

    where = node or socket.gethostname()
    spec = ReplicaSpec(
        target=server.target,
        stage=name,
        host=server.host,
        port=server.port,
        replica=f"{name}@{where}",
        node=where,
        traces=server.traces,
        otlp=server.otlp,
        max_inflight=max_inflight,
        grace_s=server.grace_s,
        max_bodies=server.max_bodies,
        shows_metrics=server.metrics != "off",
        metrics_otlp=server.metrics_otlp,
        log_format=server.log_format,
        log_level=server.log_level,
        tls=server.tls,
    )
    run_server(spec, service, lambda url: note(f"{service.name}/{name} at {url}"))
