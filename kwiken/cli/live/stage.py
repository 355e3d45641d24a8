"""`kwiken stage`: runs one replica of one stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import DefinitionError
from kwiken.cli.live.server_options import server_options
from kwiken.cli.shared.options import load_service

if TYPE_CHECKING:
    from kwiken.runtime.gateway.settings import ServerConfig


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
def command(*, target: str, server: ServerConfig, stage: str, node: str | None, max_inflight: int) -> None:
    """Run one replica of a stage of SERVICE (MODULE:NAME or FILE.py:NAME) until told to stop.

    Give its address to the gateway: kwiken serve --replica STAGE=HOST:PORT.
    """
    if server.metrics == "token":
        raise click.UsageError("a replica has no token; --metrics must be open or off")
    service = load_service(target)
    name = service[stage].name
    if service[name].remote_call is not None:
        raise DefinitionError("a foreign service serves it, so there is no replica to run", stage=name)
    import socket

    import msgspec

    from kwiken.runtime.process.server_process import run_server
    from kwiken.runtime.process.specs import ReplicaSpec

    where = node or socket.gethostname()
    spec = ReplicaSpec(
        **msgspec.structs.asdict(server),
        target=target,
        stage=name,
        replica=f"{name}@{where}",
        node=where,
        max_inflight=max_inflight,
    )
    run_server(spec, service, lambda url: note(f"{service.name}/{name} at {url}"))
