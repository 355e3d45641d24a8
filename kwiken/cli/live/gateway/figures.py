"""Client of a gateway's status route: checks the answer before use."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from kwiken.base.errors import InputError

MAX_TIME_S: Final = 253_402_300_799  # the last second of year 9999


class _Replica(msgspec.Struct):
    """Fields of a replica that `kwiken status` needs."""

    id: str
    address: str
    inflight: int
    latency_ms: float | None
    ejected: bool
    trouble: str | None = None


class _Budget(msgspec.Struct):
    """Fields of a budget that `kwiken status` needs."""

    fraction: float
    left: float
    spent: float
    horizon_s: float
    horizon_share: float
    peak: float
    share_10s: float
    worst_10s: float | None
    floor_spent: float
    denied: int
    denied_by: dict[str, int]


class _Recent(msgspec.Struct):
    """Figures of the last seconds."""

    rate_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None


class _Late(msgspec.Struct):
    """Help for late requests at a stage."""

    copies: int


class _Stage(msgspec.Struct):
    """Fields of a stage that `kwiken status` needs."""

    replicas: list[_Replica]
    foreign: bool
    reissues: int
    recent: _Recent
    late: _Late
    ledger: _Budget


class _Line(msgspec.Struct):
    """One decision of an autopilot."""

    at_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_TIME_S)]
    action: str
    reason: str


class _Note(msgspec.Struct):
    """What an autopilot does, and its last decisions."""

    at_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_TIME_S)]
    phase: str
    sentence: str
    budget: float
    changes: int
    useless: int
    history: list[_Line]


class _Figures(msgspec.Struct):
    """Fields of a gateway's status that `kwiken status` needs; the answer has more."""

    plan: str | None
    requests: int
    failed: int
    partial: int
    shed: int
    load: float
    recent: _Recent
    reissues: int
    late_reissues: int
    retries: int
    ledger: _Budget
    catch_up: _Budget
    utility: _Budget
    stages: dict[str, _Stage]
    plan_unkept: str | None = None
    trial: str | None = None
    trial_share: float = 0.0
    autopilot: _Note | None = None


def checked(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures of a gateway's status.

    Raises:
        InputError: a field is missing that `kwiken status` shows, as in a status of another version.
    """
    try:
        msgspec.convert(figures, _Figures)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(
            f"answers with another status than a gateway of this version: {error}", where="gateway"
        ) from error
    return figures
