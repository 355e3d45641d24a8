"""HTTP servers: the acceptor, aiohttp for gateways, and a small strict server for replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.http_server.acceptor import listen
    from kwiken.runtime.http_server.byte_budget import ByteBudget
    from kwiken.runtime.http_server.http1_server import TEXT, CallServer, Request, Response
    from kwiken.runtime.http_server.listener import Listener

__all__ = ["TEXT", "ByteBudget", "CallServer", "Listener", "Request", "Response", "listen"]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.http_server.acceptor": ("listen",),
        "kwiken.runtime.http_server.byte_budget": ("ByteBudget",),
        "kwiken.runtime.http_server.http1_server": (
            "CallServer",
            "Request",
            "Response",
            "TEXT",
        ),
        "kwiken.runtime.http_server.listener": ("Listener",),
    },
)
