"""A gateway's answer on its status route, asked for within bounds of time and size and checked before use."""

from __future__ import annotations

import http.client
import time
import urllib.request
from typing import Any, Final

import msgspec

ASK_S: Final = 5.0  # without a byte
WHOLE_S: Final = 15.0  # for all of it
MAX_ANSWER: Final = 64 << 20
_CHUNK: Final = 1 << 16
_NO_ANSWER: Final = (OSError, ValueError, http.client.HTTPException, msgspec.MsgspecError, RecursionError)


class _Seat(msgspec.Struct):
    """What is shown of a replica."""

    address: str
    inflight: int
    latency_ms: float | None
    ejected: bool
    trouble: str | None = None


class _Stage(msgspec.Struct):
    """What is shown of a stage."""

    replicas: list[_Seat]


class _Account(msgspec.Struct):
    """What is shown of a budget."""

    fraction: float
    spent: float
    spent_share: float
    share_10s: float
    worst_10s: float | None


class _Figures(msgspec.Struct):
    """What is shown of a gateway; it says more."""

    plan: str | None
    requests: int
    failed: int
    partial: int
    shed: int
    reissues: int
    late_reissues: int
    retries: int
    ledger: _Account
    catch_up: _Account
    utility: _Account
    stages: dict[str, _Stage]
    plan_unkept: str | None = None


def figures_of(url: str, token: str) -> dict[str, Any] | None:
    """What the gateway at an address says of itself; None where there is no sound answer.

    Args:
        url: of the gateway; only http is spoken.
        token: of its control routes.
    """
    try:
        # Handlers for http alone: no file, no proxy, no redirect.
        opener = urllib.request.OpenerDirector()
        opener.add_handler(urllib.request.HTTPHandler())
        opener.add_handler(urllib.request.HTTPErrorProcessor())
        opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
        request = urllib.request.Request(  # noqa: S310 - http alone is opened
            f"{url}/v1/status", headers={"Authorization": f"Bearer {token}"}
        )
        answer = opener.open(request, timeout=ASK_S)
        if answer is None:  # another scheme
            return None
        with answer:
            found: dict[str, Any] = msgspec.json.decode(_body(answer))
        msgspec.convert(found, _Figures)
    except _NO_ANSWER:
        return None
    return found


def _body(answer: http.client.HTTPResponse) -> bytes:
    """The whole body.

    Raises:
        ValueError: too large, or too slow.
    """
    until = time.monotonic() + WHOLE_S
    body = bytearray()
    while part := answer.read1(_CHUNK):
        body += part
        if len(body) > MAX_ANSWER or time.monotonic() > until:
            raise ValueError("no gateway's status is so large, or takes so long")
    return bytes(body)
