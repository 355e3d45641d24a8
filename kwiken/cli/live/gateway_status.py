"""A gateway's answer on its status route, asked for within bounds of time and size and checked before use."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kwiken.cli.live.gateway_client import NO_ANSWER, request_control

OK: Final = 200


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
        answer = request_control(url, "/v1/status", token)
        if answer.status != OK:
            return None
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        msgspec.convert(found, _Figures)
    except (*NO_ANSWER, msgspec.MsgspecError, RecursionError):
        return None
    return found
