"""HTTP servers: the acceptor, aiohttp for gateways, and a small strict server for replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.http_server.acceptor import listen, reserve
    from kwiken.runtime.http_server.byte_budget import (
        GATEWAY_SHARE,
        REPLICA_SHARE,
        UNCOUNTED_BYTES,
        ByteBudget,
        share_of_memory,
    )
    from kwiken.runtime.http_server.connection_limit import max_connections
    from kwiken.runtime.http_server.http1_server import TEXT, CallServer, Request, Response
    from kwiken.runtime.http_server.listener import Listener

__all__ = [
    "GATEWAY_SHARE",
    "REPLICA_SHARE",
    "TEXT",
    "UNCOUNTED_BYTES",
    "ByteBudget",
    "CallServer",
    "Listener",
    "Request",
    "Response",
    "listen",
    "max_connections",
    "reserve",
    "share_of_memory",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.http_server.acceptor": ("listen", "reserve"),
        "kwiken.runtime.http_server.byte_budget": (
            "ByteBudget",
            "GATEWAY_SHARE",
            "REPLICA_SHARE",
            "UNCOUNTED_BYTES",
            "share_of_memory",
        ),
        "kwiken.runtime.http_server.connection_limit": ("max_connections",),
        "kwiken.runtime.http_server.http1_server": (
            "CallServer",
            "Request",
            "Response",
            "TEXT",
        ),
        "kwiken.runtime.http_server.listener": ("Listener",),
    },
)
