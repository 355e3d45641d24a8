"""Limits and timeouts of gRPC connections, as channel arguments of gRPC's core."""

from __future__ import annotations

from typing import Final

from kwiken.runtime.wire.http_server.byte_budget import UNCOUNTED_BYTES

Options = tuple[tuple[str, int], ...]

ASK_METHOD: Final = "/kwiken.v1.Gateway/Ask"
STREAM_METHOD: Final = "/kwiken.v1.Gateway/Stream"
# Metadata by which a server tells a client with a retry policy when to send a request again, if at all.
RETRY_PUSHBACK: Final = "grpc-retry-pushback-ms"

MAX_OVERHEAD: Final = 64 << 10  # bytes of a message beside its payload
MAX_METADATA: Final = 16 << 10  # bytes of one call's metadata
# Bytes of a message that may come before it is asked for: what a server does not count of each message.
STREAM_WINDOW: Final = UNCOUNTED_BYTES
MAX_STREAMS: Final = 1024  # calls at once on one connection; a client keeps further ones back
# Calls whose metadata has arrived and that the event loop has not seen yet. Beyond it gRPC drops calls
# without a reason or a pushback, so the number is far above what one step of the loop leaves waiting.
MAX_PENDING: Final = 8192
KEEP_ALIVE_MS: Final = 20_000  # silence of a connection after which the server pings
KEEP_ALIVE_TIMEOUT_MS: Final = 10_000  # time for the answer to a ping, before the connection counts as lost
MIN_PING_INTERVAL_MS: Final = 5_000  # a client that pings more often is disconnected
SERVER_IDLE_MS: Final = 75_000  # longer than clients wait, so that the client is the one that closes
HANDSHAKE_MS: Final = 10_000  # longest time for the beginning of a connection


def server_options(*, max_body: int, connections: int, shared: bool = False) -> Options:
    """Channel arguments of a server.

    Args:
        max_body: longest payload of a message, bytes.
        shared: whether other servers of this user may listen at the same port.
    """
    return (
        ("grpc.so_reuseport", int(shared)),  # gRPC's default is to share
        ("grpc.enable_channelz", 0),
        ("grpc.max_receive_message_length", max_body + MAX_OVERHEAD),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", MAX_METADATA),
        ("grpc.absolute_max_metadata_size", MAX_METADATA),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server.max_pending_requests", MAX_PENDING),
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
        # Else the window grows by gRPC's estimate of the path, and so would the uncounted bytes.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", STREAM_WINDOW),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.max_connection_idle_ms", SERVER_IDLE_MS),
        ("grpc.keepalive_time_ms", KEEP_ALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEP_ALIVE_TIMEOUT_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", MIN_PING_INTERVAL_MS),
    )
