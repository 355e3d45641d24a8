"""Small test service whose last stage streams numbers; each request scripts the behaviour of the stage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue


class Script(msgspec.Struct, forbid_unknown_fields=True):
    """Request: `count` items are sent.

    Attributes:
        pad: bytes that each item has beside its number.
        first_ms: wait before the first item, milliseconds.
        gap_ms: wait before each further item, milliseconds.
        burn_ms: CPU time that each item takes.
        fail_at: number of the item in whose place the handler raises; -1 for none.
        exit_at: number of the item in whose place the process exits; -1 for none.
        stall_at: number of the item before which the call waits for an hour; -1 for none.
        log: folder in which each call leaves files; empty for none.
        stalls: numbers of items before which a call waits as well, but for one that begins there.
        start: number of the first item that is sent.
        only_first: whether what goes wrong goes wrong for the first call alone that comes, of those with one log.
    """

    count: int
    pad: int = 0
    first_ms: float = 0.0
    gap_ms: float = 0.0
    burn_ms: float = 0.0
    fail_at: int = -1
    exit_at: int = -1
    stall_at: int = -1
    log: str = ""
    stalls: list[int] = []
    start: int = 0
    only_first: bool = False


class Item(msgspec.Struct):
    """Item of the stream; `by` is the process that sent it."""

    number: int
    by: int
    pad: str = ""


service = Service("numbers")


@service.stage(idempotent=True)
async def begin(script: Script) -> Script:
    """Pass the request on."""
    return script


def _mark(script: Script, what: str) -> None:
    if script.log:
        (Path(script.log) / f"{os.getpid()}-{time.monotonic_ns()}.{what}").touch()


def _goes_wrong(script: Script) -> bool:
    """Whether this call is one that goes wrong."""
    if not script.only_first:
        return True
    with contextlib.suppress(FileExistsError):
        (Path(script.log) / "claimed").touch(exist_ok=False)
        return True
    return False


@service.stage(after=[begin], replicas=2, idempotent=True, timeout_ms=4000, reissue=Reissue(after_ms=60.0))
async def count(script: Script) -> AsyncIterator[Item]:
    """Send the numbers from 0, or fail as the request says."""
    _mark(script, "started")
    wrong = _goes_wrong(script)
    try:
        for number in range(script.start, script.count):
            if wrong and number == script.fail_at:
                raise ValueError("told to fail")
            if wrong and number == script.exit_at:
                os._exit(3)
            if (wrong and number == script.stall_at) or (number in script.stalls and number > script.start):
                await asyncio.sleep(3600)
            wait_ms = script.gap_ms if number else script.first_ms
            if wait_ms:
                await asyncio.sleep(wait_ms / 1e3)
            end = time.perf_counter() + script.burn_ms / 1e3
            while time.perf_counter() < end:
                pass
            yield Item(number, os.getpid(), "x" * script.pad)
            if script.log and number % 100 == 0:
                (Path(script.log) / f"{os.getpid()}.reached").write_text(str(number))
    except (asyncio.CancelledError, GeneratorExit):
        _mark(script, "cancelled")
        raise
    _mark(script, "ended")


service.check()


def after_the_last(script: Script, items: list[Item]) -> Script:
    """Request for the items after those that have come."""
    return msgspec.structs.replace(script, start=items[-1].number + 1)


def resuming_service(timeout_ms: float) -> Service:
    """Service without copies whose streams go on at another replica, after a wait of that time too."""
    made = Service("numbers")
    made.stage(idempotent=True)(begin)
    made.stage(after=[begin], replicas=2, idempotent=True, timeout_ms=timeout_ms, resume=after_the_last)(
        count
    )
    made.check()
    return made


resuming = resuming_service(60_000)
