"""Options that the verbs which run servers share: `serve`, `stage` and `up`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.options import NOT_NEGATIVE

if TYPE_CHECKING:
    from kwiken.runtime.gateway.settings import ServerConfig
    from kwiken.runtime.wire.tls.files import TlsFiles

F = TypeVar("F", bound=Callable[..., Any])
MAX_PORT: Final = 65_535
DRAWN_SHARE: Final = 0.04  # the runtime's own default, which is not loaded for a help text


def tls_files(
    option: str, certificate: str | None, key: str | None, authorities: str | None, name: str | None = None
) -> TlsFiles | None:
    """Files for TLS that options name; None if they name none.

    Args:
        option: beginning of the options, as `--tls`.
        certificate: path of the certificate to show, the value of `-cert`.
        key: path of its private key, the value of `-key`.
        authorities: path of the authorities of the other side, the value of `-ca`.
        name: host name that the other side's certificate must hold, the value of `-name`.

    Raises:
        InputError: an option is missing that another one needs, or a file cannot be used.
    """
    if certificate is None or key is None:
        for end, value in (("cert", certificate), ("key", key), ("ca", authorities), ("name", name)):
            if value is not None:
                raise InputError(f"needs {option}-cert and {option}-key", where=f"{option}-{end}")
        return None
    from kwiken.runtime.wire.tls.certificates import Certificates
    from kwiken.runtime.wire.tls.files import TlsFiles

    files = TlsFiles(certificate=certificate, key=key, authorities=authorities, name=name)
    Certificates(files)
    return files


class Host(click.types.StringParamType):
    """Value type of an address to listen on; refuses empty text, which would mean every address."""

    name = "host"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Strip the address or host name; an empty one is an error."""
        text = str(value).strip()
        if not text:
            self.fail("is empty; give 127.0.0.1, or 0.0.0.0 for every address", param, ctx)
        return text


def _check_otlp(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    del ctx
    if value is not None:
        from kwiken.base.extras import require

        require(param.opts[0], "otel")
    return value


def server_options(*, port: int, what: str) -> Callable[[F], F]:
    """Decorate a verb's function with the shared options; it gets a `ServerConfig` as `server`.

    Args:
        port: default of the port; 0 for any free port.
        what: name of what listens, for the help text.
    """
    options = (
        click.argument("target", metavar="SERVICE"),
        click.option(
            "--host",
            type=Host(),
            metavar="HOST",
            default="127.0.0.1",
            show_default=True,
            help=f"Address that {what} listens on.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, MAX_PORT),
            default=port,
            show_default=True,
            help=f"Port that {what} listens on; 0: any free port.",
        ),
        click.option("--traces", metavar="DIR", help="Folder to write spans to."),
        click.option("--otlp", metavar="URL", callback=_check_otlp, help="Collector to send spans to."),
        click.option(
            "--grace",
            "grace_s",
            type=NOT_NEGATIVE,
            default=10.0,
            show_default=True,
            help="Seconds for requests in flight to end at a stop.",
        ),
        click.option(
            "--bodies-mib",
            type=click.IntRange(1, 1 << 24),
            metavar="MIB",
            help="Memory for the bodies of all requests together; requests beyond it are refused.  "
            "[default: a share of all]",
        ),
        click.option(
            "--metrics",
            type=click.Choice(["open", "token", "off"]),
            default="open",
            show_default=True,
            help="Who may read /metrics: anybody, holders of the control routes' token, or nobody.",
        ),
        click.option(
            "--metrics-otlp",
            metavar="URL",
            envvar="OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            callback=_check_otlp,
            help="Collector to send metrics to.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Format of the log's lines on stderr.",
        ),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="Lowest level of the log's lines, those of the stages' own loggers included.",
        ),
        click.option(
            "--tls-cert",
            metavar="FILE",
            help=f"Certificate (PEM) by which {what} speaks TLS; read again when the file changes.",
        ),
        click.option("--tls-key", metavar="FILE", help="Private key (PEM) of --tls-cert."),
        click.option(
            "--tls-ca",
            metavar="FILE",
            help="Authorities (PEM) of clients: only those with a certificate of them are served.",
        ),
    )

    def decorate(callback: F) -> F:
        @functools.wraps(callback)
        def with_settings(
            *,
            bodies_mib: int | None,
            tls_cert: str | None,
            tls_key: str | None,
            tls_ca: str | None,
            **values: Any,
        ) -> Any:
            from kwiken.runtime.gateway.settings import ServerConfig

            named = {name: values.pop(name) for name in ServerConfig.__struct_fields__ if name in values}
            server = ServerConfig(
                **named,
                max_bodies=bodies_mib * MIB if bodies_mib is not None else None,
                tls=tls_files("--tls", tls_cert, tls_key, tls_ca),
            )
            return callback(server=server, **values)

        decorated: Callable[..., Any] = with_settings
        for option in reversed(options):
            decorated = option(decorated)
        return cast("F", decorated)

    return decorate


def _check_lines(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    del ctx, param
    if value is not None:
        from kwiken.model.service.request_kinds import NO_LINES, RequestKinds

        if value != NO_LINES:
            RequestKinds.parse(value, where="--lines")
    return value


def gateway_options(callback: F) -> F:
    """Decorate a verb's function, below `server_options`, with the options of gateways.

    The function gets a `GatewayConfig` as `server`.
    """

    @functools.wraps(callback)
    def with_settings(*, server: ServerConfig, **values: Any) -> Any:
        from kwiken.runtime.gateway.settings import GatewayConfig, ServerConfig

        named = {name: values.pop(name) for name in GatewayConfig.__struct_fields__ if name in values}
        return callback(server=GatewayConfig(**server.part(ServerConfig), **named), **values)

    decorated: Callable[..., Any] = with_settings
    for option in (
        click.option(
            "--lines",
            metavar="PLACE",
            callback=_check_lines,
            help="Let kinds of requests wait in lines of their own, so that heavy ones do not hold up light "
            "ones. Kinds are named by header:NAME or field:NAME; with field:NAME=small,large these alone are "
            "told apart; off overrides the service.",
        ),
        click.option(
            "--allowed-host",
            "allowed_hosts",
            type=Host(),
            multiple=True,
            metavar="NAME",
            help="Host name under which the gateway accepts requests, from pages of that host too; "
            "repeatable.",
        ),
        click.option("--plan", metavar="FILE", help="Plan to follow; read again when the file changes."),
        click.option(
            "--grpc-port",
            type=click.IntRange(0, MAX_PORT),
            metavar="PORT",
            help="Port for requests over gRPC, beside those over HTTP; 0: any free port.  [default: none]",
        ),
        click.option(
            "--trace-share",
            type=click.FloatRange(0, 1, min_open=True),
            metavar="SHARE",
            default=DRAWN_SHARE,
            show_default=True,
            help="Share of ordinary requests that --trace sampled keeps.",
        ),
        click.option(
            "--trace",
            type=click.Choice(["all", "sampled", "off"]),
            default="sampled",
            show_default=True,
            help="Requests whose spans are written: all, none (off), or unusual ones and a share of the rest "
            "(sampled).",
        ),
    ):
        decorated = option(decorated)
    return cast("F", decorated)


def replica_tls_options(callback: F) -> F:
    """Decorate a verb's function with the files for calls to replicas; it gets them as `replica_tls`."""

    @functools.wraps(callback)
    def with_files(
        *,
        replica_tls_cert: str | None,
        replica_tls_key: str | None,
        replica_tls_ca: str | None,
        replica_tls_name: str | None,
        **values: Any,
    ) -> Any:
        files = tls_files(
            "--replica-tls", replica_tls_cert, replica_tls_key, replica_tls_ca, replica_tls_name
        )
        if files is not None and files.authorities is None:
            raise InputError("is needed: the authorities of the replicas", where="--replica-tls-ca")
        return callback(replica_tls=files, **values)

    decorated: Callable[..., Any] = with_files
    for option in (
        click.option(
            "--replica-tls-name",
            type=Host(),
            metavar="NAME",
            help="Host name that certificates of replicas hold.  [default: the address that is called]",
        ),
        click.option("--replica-tls-ca", metavar="FILE", help="Authorities (PEM) of replicas."),
        click.option("--replica-tls-key", metavar="FILE", help="Private key (PEM) of --replica-tls-cert."),
        click.option(
            "--replica-tls-cert",
            metavar="FILE",
            help="Certificate (PEM) that the gateway shows to replicas, which are then called over TLS; read "
            "again when the file changes.",
        ),
    ):
        decorated = option(decorated)
    return cast("F", decorated)
