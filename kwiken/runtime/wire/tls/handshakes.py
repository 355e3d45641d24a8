"""Handshakes that fail: which side refused, and why, in words for the log."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

HANDSHAKE_S: Final = 5.0  # longest time of a handshake; a client that says nothing is then disconnected
MAX_HANDSHAKES: Final = 1024  # handshakes at once at one port; a further client disconnects the oldest
NOT_TLS: Final = frozenset(
    {
        "HTTP_REQUEST",
        "HTTPS_PROXY_REQUEST",
        "WRONG_VERSION_NUMBER",
        "UNKNOWN_PROTOCOL",
        "RECORD_LAYER_FAILURE",
    }
)


def why_no_tls(error: OSError) -> str:
    """Reason why a server has no connection with a client that called it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _reason_of(error.reason or "")
    if isinstance(error, ConnectionAbortedError):
        return f"the client did not finish the handshake within {HANDSHAKE_S:g} s"
    return "the client closed the connection during the handshake"


def _reason_of(code: str) -> str:
    """Reason of an error that OpenSSL gives a code, as `HTTP_REQUEST`."""
    words = code.lower().replace("_", " ")
    if code in NOT_TLS:
        return "the client does not speak TLS"
    if code == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the client shows no certificate"
    if "ALERT" in code:
        return f"the client refuses this server's certificate: {words}"
    return words or "the handshake failed"


def is_tls(transport: asyncio.BaseTransport | None) -> bool:
    """Whether a connection is over TLS, where neither side can end its half alone."""
    return transport is not None and transport.get_extra_info("sslcontext") is not None
