"""Small test service for real sockets and processes; each request scripts the behaviour of the stages."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec

from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """Request: `text` is echoed in capitals, once a shard, and joined.

    Attributes:
        text: text to echo.
        sleep_ms: wait of every middle call, milliseconds.
        burn_ms: CPU time that every middle call takes.
        fail: whether the middle stage raises.
        log: folder in which every middle call leaves a file when it starts, ends or is cancelled.
        odd_exit: whether the process of a middle call exits at once.
    """

    text: str
    sleep_ms: float = 0.0
    burn_ms: float = 0.0
    fail: bool = False
    log: str | None = None
    odd_exit: bool = False


service = Service("echo", page="<!doctype html><title>echo</title>")


@service.stage(idempotent=True)
async def first(ask: Ask) -> Ask:
    """Pass the request on."""
    return ask


async def _work(ask: Ask, name: str) -> None:
    log = Path(ask.log) if ask.log is not None else None
    if log is not None:
        (log / f"{name}.{os.getpid()}.started").touch()
    try:
        if ask.odd_exit:
            os._exit(3)
        end = time.perf_counter() + ask.burn_ms / 1e3
        while time.perf_counter() < end:
            pass
        if ask.sleep_ms:
            await asyncio.sleep(ask.sleep_ms / 1e3)
        if ask.fail:
            raise ValueError("told to fail")
    except asyncio.CancelledError:
        if log is not None:
            (log / f"{name}.{os.getpid()}.cancelled").touch()
        raise
    if log is not None:
        (log / f"{name}.{os.getpid()}.ended").touch()


@service.stage(
    after=[first], fanout=2, replicas=3, idempotent=True, timeout_ms=4000, reissue=Reissue(after_ms=60.0)
)
async def middle(ask: Ask, *, shard: int) -> str:
    """Return the text in capitals with the shard's number, or fail as the request says."""
    await _work(ask, f"middle-{shard}")
    return f"{ask.text.upper()}{shard}"


@service.stage(after=[middle], replicas=2, idempotent=True)
async def last(parts: Partial[str]) -> dict[str, str]:
    """Join the shards' texts."""
    return {"said": " ".join(parts.present)}


def plan_for(target: Service = service, *, after_ms: float = 25.0) -> Plan:
    """Plan that reissues the middle stage."""
    return Plan(
        version=1,
        service=target.name,
        created="2024-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=0.05),
        cost=Costs(model="calls", stages={"first": 0.25, "middle": 0.5, "last": 0.25}),
        stages={"middle": StagePlan(reissue=Reissue(after_ms=after_ms, fraction=0.05))},
    )
