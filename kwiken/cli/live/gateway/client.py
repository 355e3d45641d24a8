"""Requests to a gateway's control routes, bounded in time and size."""

from __future__ import annotations

import http.client
import time
import urllib.request
from typing import Final, NamedTuple

SILENCE_S: Final = 5.0  # the longest wait for the next bytes
WHOLE_ANSWER_S: Final = 15.0  # the longest time in which the whole answer is read
MAX_ANSWER: Final = 64 << 20  # bytes
CHUNK: Final = 1 << 16
# Errors of a request if the server is not a gateway, or disappears.
NO_ANSWER: Final = (OSError, ValueError, http.client.HTTPException)


class ControlAnswer(NamedTuple):
    """Answer of a gateway to one request."""

    status: int
    body: bytes


def request_control(
    url: str, path: str, token: str, *, method: str = "GET", body: bytes | None = None
) -> ControlAnswer:
    """Send one request to a control route and read the whole answer.

    Args:
        body: JSON; None for no body.

    Raises:
        OSError, ValueError, HTTPException: there is no answer, or it is too long or too slow (`NO_ANSWER`).
    """
    # Handlers for http and https alone: no file, no proxy, no redirect.
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.HTTPHandler())
    if url.startswith("https:"):
        from kwiken.runtime.wire.tls.clients import ClientTls

        opener.add_handler(urllib.request.HTTPSHandler(context=ClientTls().context()))
    request = urllib.request.Request(  # noqa: S310 - http and https alone are opened
        f"{url}{path}",
        method=method,
        data=body,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    answer = opener.open(request, timeout=SILENCE_S)
    if answer is None:
        raise ValueError(f"not an http or https address: {url}")
    with answer:
        return ControlAnswer(answer.status, _whole_body(answer))


def _whole_body(answer: http.client.HTTPResponse) -> bytes:
    """Read a body to its end.

    Raises:
        ValueError: it is too long, or takes too long.
    """
    until = time.monotonic() + WHOLE_ANSWER_S
    body = bytearray()
    while part := answer.read1(CHUNK):
        body += part
        if len(body) > MAX_ANSWER or time.monotonic() > until:
            raise ValueError("the answer is too long, or takes too long")
    return bytes(body)
