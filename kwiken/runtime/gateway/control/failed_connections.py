"""Explanations of failed requests to a gateway: what failed, and what to set."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from kwiken.runtime.wire.foreign.http_bodies import BrokenReplyError
from kwiken.runtime.wire.tls.clients import AUTHORITIES, CERTIFICATE, KEY

OTHER_NAME: Final = "call the gateway by a name that its certificate holds"
CURES: Final = {  # by OpenSSL's number of the error in checking a certificate
    10: "renew the certificate of the gateway, or set the clock of this machine",
    62: OTHER_NAME,
    64: OTHER_NAME,
}
# Alerts by which a server refuses the certificate of a client, or the lack of one.
CLIENT_REFUSED: Final = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA")
SHOW: Final = f"set {CERTIFICATE} and {KEY} to files that the gateway's authorities signed"


def explained(url: str, error: Exception, *, cure: bool = True) -> str:
    """Why a request got no answer, as a part of a sentence; there are eight cases.

    Args:
        url: address that was called.
        error: error of the request.
        cure: whether to add what a user of the command can set.
    """
    cause: Exception = getattr(error, "os_error", error)  # the cause within an error of aiohttp
    match cause:
        case socket.gaierror():  # 1. the name
            what, how = f"its host name is not known here ({cause.strerror})", "is the address right?"
        case ConnectionRefusedError():  # 2. no server
            what, how = "the connection was refused", "is the gateway up, and is the port right?"
        case ssl.SSLCertVerificationError():  # 3. the certificate of the gateway
            what = f"certificate verify failed: {cause.verify_message}"
            how = CURES.get(cause.verify_code, f"set {AUTHORITIES} to the file with its authorities")
        case ssl.SSLError() if any(one in str(cause.reason) for one in CLIENT_REFUSED):  # 4. the client's
            what, how = f"the gateway refuses the certificate of the client ({cause.reason})", SHOW
        case ssl.SSLError():  # 5. no TLS
            what, how = f"the gateway does not speak TLS ({cause.reason})", "give an http address"
        case TimeoutError():  # 6. silence
            what, how = "no answer in time", "does the gateway run, and can it be reached from here?"
        case BrokenReplyError() | ConnectionError():  # 7. hung up, or no HTTP
            what = str(cause)
            how = SHOW if url.startswith("https:") else "if it speaks TLS, give an https address"
        case _:  # 8. any other
            what, how = str(error) or type(error).__name__, ""
    return f"{what}; {how}" if cure and how else what
