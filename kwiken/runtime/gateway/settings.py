"""Settings of a gateway: addresses to listen on, limits of requests, and rights to control."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kwiken.model.service.request_kinds import RequestKinds
from kwiken.runtime.wire.tls.certificates import Certificates

MAX_REQUEST: Final = 4 << 20  # bytes

MetricsAccess = Literal["open", "token", "off"]


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """Settings of a gateway.

    Attributes:
        port: port to listen on; 0 for any free port.
        token: secret for the control routes; None closes them.
        remote: whether the gateway is ready only when every stage has replicas.
        max_body: longest body of a request, bytes.
        max_bodies: bytes that all requests together may hold, without the first 16 KiB of each; None for a
            share of the memory.
        allowed_hosts: further host names that the gateway answers to, and whose pages may send requests.
        metrics: who may read `/metrics`: anybody, those with the token of the control routes, or nobody.
        doors: number of front doors, by as many protocols, that share the connections of the process.
        name: name of this gateway, in its status and its metrics; empty for none.
        kinds: place in which requests name the kind by which they wait in lines; None for no lines. The
            executor has lines too then.
        sockets: listening sockets, used instead of host and port; empty to create new ones.
        tls: certificates for connections over TLS; None for connections without.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    remote: bool = True
    max_body: int = MAX_REQUEST
    max_bodies: int | None = None
    allowed_hosts: Collection[str] = ()
    metrics: MetricsAccess = "open"
    doors: int = 1
    name: str = ""
    kinds: RequestKinds | None = None
    sockets: Sequence[socket.socket] = ()
    tls: Certificates | None = None
