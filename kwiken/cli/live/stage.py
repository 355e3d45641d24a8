"""`kwiken stage`: runs one replica of one stage."""

from __future__ import annotations

import click

from kwiken.cli.shared import (
    NOT_NEGATIVE,
    bodies_option,
    bytes_of,
    host_option,
    load_service,
    note,
    otlp_option,
)

MAX_PORT = 65_535


@click.command(short_help="Run one replica of one stage.")
@click.argument("target", metavar="MODULE:SERVICE")
@click.option("--stage", required=True, help="Name of the stage.")
@host_option
@click.option(
    "--port", type=click.IntRange(0, MAX_PORT), default=0, show_default=True, help="0: any free port."
)
@click.option("--node", metavar="NAME", help="Name of this machine in traces.  [default: its host name]")
@click.option("--traces", metavar="DIR", help="Folder to write spans to.")
@otlp_option
@click.option(
    "--max-inflight",
    type=click.IntRange(1, 1_000_000),
    default=64,
    show_default=True,
    help="Largest number of calls at once; further calls are refused, and go to other replicas.",
)
@click.option(
    "--grace",
    "grace_s",
    type=NOT_NEGATIVE,
    default=10.0,
    show_default=True,
    help="Seconds for requests in flight to end at a stop.",
)
@bodies_option
def command(
    *,
    target: str,
    stage: str,
    host: str,
    port: int,
    node: str | None,
    traces: str | None,
    otlp: str | None,
    max_inflight: int,
    grace_s: float,
    bodies_mib: int | None,
) -> None:
    """Run one replica of a stage of MODULE:SERVICE until told to stop.

    Give its address to the gateway: kwiken serve --replica STAGE=HOST:PORT.
    """
    service = load_service(target)
    name = service[stage].name
    import socket

    from kwiken.runtime.process import ReplicaSpec, run_server

    where = node or socket.gethostname()
    spec = ReplicaSpec(
        target=target,
        stage=name,
        host=host,
        port=port,
        replica=f"{name}@{where}",
        node=where,
        traces=traces,
        otlp=otlp,
        max_inflight=max_inflight,
        grace_s=grace_s,
        max_bodies=bytes_of(bodies_mib),
    )
    run_server(spec, service, lambda url: note(f"{service.name}/{name} at {url}"))
