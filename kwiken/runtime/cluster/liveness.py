"""Liveness check: tells a lasting hang of a process from a short pause or a graceful shutdown."""

from __future__ import annotations

import asyncio
import enum
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp

EVERY_S: Final = 2.0  # longest interval of checks
MIN_CHECKS: Final = 5  # failed checks before a process counts as unresponsive


class Liveness(enum.Enum):
    """Result of a liveness check."""

    ALIVE = "it answered"
    CLOSED = "it takes no connections: it may be about to end"
    SILENT = "no answer in time"


async def until_unresponsive(
    ask: Callable[[float], Awaitable[Liveness]], *, silent_s: float, closed_s: float
) -> Liveness:
    """Check a process at intervals; return once it has not answered for too long.

    The criterion is the number of failed checks, not elapsed time: after a pause of this process, or of the
    whole machine, every other process seems to have been unresponsive for as long.

    Args:
        ask: checks the process, with the given timeout in seconds.
        silent_s: time without an answer that is too long, seconds; above 0.
        closed_s: the same for a process that accepts no connections, seconds.

    Returns:
        The last result: SILENT or CLOSED.
    """
    loop = asyncio.get_running_loop()
    every_s = min(EVERY_S, silent_s / MIN_CHECKS)
    missed = 0
    while True:
        began = loop.time()
        sign = await ask(every_s)
        missed = 0 if sign is Liveness.ALIVE else missed + 1
        if missed * every_s >= (silent_s if sign is not Liveness.CLOSED else max(silent_s, closed_s)):
            return sign
        await asyncio.sleep(max(0.0, began + every_s - loop.time()))


async def check_liveness(
    session: aiohttp.ClientSession, url: str, within_s: float, *, tls: ssl.SSLContext | bool = True
) -> Liveness:
    """Check whether a server is alive; any response counts.

    Args:
        url: URL of the server, over HTTP.
        within_s: timeout of the response, seconds.
        tls: context of connections over TLS; True for the system's.
    """
    try:
        async with session.get(url + "/livez", timeout=aiohttp.ClientTimeout(total=within_s), ssl=tls):
            pass  # the body is irrelevant and may be endless
    except TimeoutError:
        return Liveness.SILENT
    except (aiohttp.ClientError, ConnectionError):
        return Liveness.CLOSED
    return Liveness.ALIVE
