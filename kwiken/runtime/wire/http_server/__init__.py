"""HTTP servers: the acceptor, aiohttp for gateways, and a small strict server for replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.wire.http_server.acceptor import (
        listen as listen,
        max_connections as max_connections,
        reserve as reserve,
    )
    from kwiken.runtime.wire.http_server.byte_budget import (
        GATEWAY_SHARE as GATEWAY_SHARE,
        REPLICA_SHARE as REPLICA_SHARE,
        UNCOUNTED_BYTES as UNCOUNTED_BYTES,
        ByteBudget as ByteBudget,
        share_of_memory as share_of_memory,
    )
    from kwiken.runtime.wire.http_server.http1_server import (
        TEXT as TEXT,
        CallServer as CallServer,
        HttpRequest as HttpRequest,
        Response as Response,
    )
    from kwiken.runtime.wire.http_server.json_response import (
        GatewayResponse as GatewayResponse,
        JsonResponse as JsonResponse,
    )
    from kwiken.runtime.wire.http_server.listener import Listener as Listener

__getattr__ = lazy_names(__name__, __file__)
