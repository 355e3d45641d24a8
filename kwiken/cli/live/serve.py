"""`kwiken serve`: runs a service's gateway."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError
from kwiken.cli.live.gateway.autopilot_beside import AutopilotSettings, autopilot_command, autopilot_options
from kwiken.cli.live.server_options import (
    gateway_options,
    replica_tls_options,
    server_options,
)
from kwiken.cli.shared.options import load_service

if TYPE_CHECKING:
    from kwiken.model.service.service import Service
    from kwiken.runtime.gateway.settings import GatewayConfig
    from kwiken.runtime.wire.tls.files import TlsFiles


@click.command(short_help="Run a service's gateway.")
@server_options(port=8080, what="the gateway")
@gateway_options
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    metavar="STAGE=HOST:PORT",
    help="Address of a replica; STAGE=grpc://HOST:PORT for a foreign service over gRPC. Repeatable. Every "
    "address of a host name is used, and looked up regularly. For a foreign service's stage it replaces "
    "the addresses in the definition.",
)
@click.option(
    "--sibling",
    "siblings",
    multiple=True,
    metavar="HOST:PORT",
    help="Another gateway of the service: status, metrics and page then tell of all, and plans are passed "
    "on. Repeatable. Every address of a host name is used; this gateway's own may be among them.",
)
@click.option("--local", is_flag=True, help="Run every stage in this process instead.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="File with the token of the control routes, or set KWIKEN_TOKEN. Without a token the control "
    "routes are closed.",
)
@autopilot_options
@click.option(
    "--autopilot-state",
    metavar="DIR",
    default=".kwiken",
    show_default=True,
    help="Folder of the autopilot's history and lease.",
)
@replica_tls_options
def command(
    *,
    target: str,
    server: GatewayConfig,
    replicas: tuple[str, ...],
    siblings: tuple[str, ...],
    local: bool,
    token_file: str | None,
    autopilot: AutopilotSettings,
    autopilot_state: str,
    replica_tls: TlsFiles | None,
) -> None:
    """Run the gateway of SERVICE until told to stop.

    SERVICE is where the service is defined: MODULE:NAME, as kwiken.services.search:search, FILE.py:NAME, or
    FILE.yaml for a service whose stages are all served by others. The current folder is searched for modules
    first.

    Requests go to POST /v1/request as JSON, and with --grpc-port to /kwiken.v1.Gateway/Ask too. Other routes
    are /livez, /readyz, and / for the service's page.
    """
    autopilot.check(plan=server.plan, trace=server.trace)
    if autopilot.wanted and siblings:
        raise InputError(
            "does not go with --autopilot, which would steer this gateway alone; run kwiken autopilot with "
            "the --url of each gateway",
            where="--sibling",
        )
    service = load_service(target)
    own = [text for text in replicas if not _is_foreign(service, text)]
    if local and replica_tls is not None:
        raise InputError(
            "every stage runs in this process, so no replica is called", where="--replica-tls-cert"
        )
    if local and own:
        raise InputError("every stage runs in this process, so there is no replica to name", where="--local")
    has_token = token_file is not None or bool(os.environ.get("KWIKEN_TOKEN"))
    steering = _steering(autopilot, service.name, server.traces, autopilot_state, has_token=has_token)
    import socket

    import msgspec

    from kwiken.runtime.gateway.control.name_resolver import parse_endpoint
    from kwiken.runtime.process.server_process import run_server
    from kwiken.runtime.process.specs import GatewaySpec

    for text in siblings:
        parse_endpoint(text)
    spec = GatewaySpec(
        **msgspec.structs.asdict(server),
        target=target,
        local=local,
        replicas=endpoints_of(service, replicas, later=local or has_token),
        token_file=token_file,
        siblings=list(siblings),
        name=f"gateway@{socket.gethostname()}:{server.port}" if siblings else "",
        autopilot=steering,
        replica_tls=replica_tls,
    )
    run_server(spec, service, lambda url: note(f"{service.name} at {url}"))


def _steering(
    settings: AutopilotSettings, service: str, traces: str | None, state: str, *, has_token: bool
) -> list[str]:
    """Command of the autopilot; empty if none is wanted.

    Raises:
        InputError: the autopilot could not reach the gateway, or would have nothing to learn from.
    """
    if not settings.wanted:
        return []
    if not has_token:
        raise InputError(
            "needs the control routes: give --token-file, or set KWIKEN_TOKEN", where="--autopilot"
        )
    if traces is None:
        raise InputError("needs --traces, the folder of what is learned from", where="--autopilot")
    return autopilot_command(settings, service, traces=traces, state=state)


def _is_foreign(service: Service, text: str) -> bool:
    """Whether an option's text `STAGE=HOST:PORT` names a stage that a foreign service serves."""
    stage = service.stages.get(text.partition("=")[0])
    return stage is not None and stage.remote_call is not None


def endpoints_of(service: Service, replicas: tuple[str, ...], *, later: bool) -> dict[str, list[str]]:
    """Addresses of each stage's replicas, as `HOST:PORT` or `grpc://HOST:PORT`.

    Args:
        replicas: texts of the option, `STAGE=HOST:PORT` each.
        later: whether a stage may be without a replica, because it gets one later or needs none.

    Raises:
        InputError: for text of another form, or a stage that no replica could ever serve.
        DefinitionError: for an unknown stage.
    """
    from kwiken.runtime.gateway.control.name_resolver import parse_endpoint

    found: dict[str, list[str]] = {}
    for text in replicas:
        stage, equals, endpoint = text.partition("=")
        if not equals:
            raise InputError(f"must be STAGE=HOST:PORT, not {text!r}", where="--replica")
        parse_endpoint(endpoint)
        found.setdefault(service[stage].name, []).append(endpoint)
    lacking = [
        name for name, stage in service.stages.items() if name not in found and stage.remote_call is None
    ]
    if lacking and not later:
        raise InputError(
            f"no replica of {', '.join(lacking)}; give --replica STAGE=HOST:PORT for each, or --local",
            where="--replica",
        )
    return found
