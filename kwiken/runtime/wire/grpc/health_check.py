"""Health check of a gRPC server by a connection of its own."""

from __future__ import annotations

from grpc import StatusCode, aio

from kwiken.runtime.wire.grpc.settings import HEALTH_METHOD
from kwiken.runtime.wire.grpc.transport import target_of
from kwiken.runtime.wire.transport import wire

SLOW_CONNECT_MS = 60_000  # connections are given up by the caller's time-out, not by gRPC's


async def check_health(url: str, within_s: float) -> None:
    """Ask the health service of a server; any answer is a sign of life.

    Args:
        url: URL of the server, `grpc://HOST:PORT`.

    Raises:
        TimeoutError: there was no answer in time.
        ConnectionError: the server takes no connections, or closed the connection.
    """
    host, port = wire.split_address(url, where="health check", schemes=(wire.GRPC,))
    options = (
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.min_reconnect_backoff_ms", SLOW_CONNECT_MS),
    )
    async with aio.insecure_channel(target_of(host, port), options=options) as channel:
        try:
            await channel.unary_unary(HEALTH_METHOD)(b"", timeout=within_s)
        except aio.AioRpcError as error:
            if error.code() is StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError(f"no answer within {within_s:g} s") from error
            if error.code() is StatusCode.UNAVAILABLE:
                raise ConnectionError(error.details()) from error
