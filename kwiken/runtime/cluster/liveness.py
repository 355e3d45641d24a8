"""Whether a process still answers: a hang that lasts, told from a pause and from an orderly end."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp

EVERY_S: Final = 2.0
LEAST_ASKS: Final = 5


class Sign(enum.Enum):
    """What came of asking a process whether it lives."""

    ALIVE = "it answered"
    CLOSED = "it takes no connections: it may be about to end"
    SILENT = "no answer in time"


async def until_silent(ask: Callable[[float], Awaitable[Sign]], *, silent_s: float, closed_s: float) -> Sign:
    """Ask again and again; return once no answer has come for too long in a row.

    What counts are questions without an answer, not what the clock says: when this very process was paused,
    or its machine asleep, every other one seems to have been silent for as long.

    Args:
        ask: whether it lives; it has so many seconds to say so.
        silent_s: seconds of silence that are too long; above 0.
        closed_s: the same for a process that takes no connections.

    Returns:
        The last sign: SILENT or CLOSED.
    """
    loop = asyncio.get_running_loop()
    every_s = min(EVERY_S, silent_s / LEAST_ASKS)
    missed = 0
    while True:
        began = loop.time()
        sign = await ask(every_s)
        missed = 0 if sign is Sign.ALIVE else missed + 1
        if missed * every_s >= (silent_s if sign is not Sign.CLOSED else max(silent_s, closed_s)):
            return sign
        await asyncio.sleep(max(0.0, began + every_s - loop.time()))


async def sign_of(session: aiohttp.ClientSession, url: str, within_s: float) -> Sign:
    """Ask a server whether it lives; any answer will do.

    Args:
        session: to ask by.
        url: of the server.
        within_s: seconds for the answer.
    """
    try:
        async with session.get(url + "/livez", timeout=aiohttp.ClientTimeout(total=within_s)):
            pass  # what it says does not matter, and may have no end
    except TimeoutError:
        return Sign.SILENT
    except aiohttp.ClientError:
        return Sign.CLOSED
    return Sign.ALIVE
