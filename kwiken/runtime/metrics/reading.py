"""Reading of metrics in the event loop, in pieces, so that other work of the loop goes on in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from kwiken.otel.metrics.model import Family

MAX_HOLD_S: Final = 0.001  # of the event loop, by the metrics that are read in a row


async def read_in_turns(families: Iterable[Family]) -> list[Family]:
    """Read metrics; the values of each are of one moment.

    Args:
        families: the metrics, each read when it is asked for.
    """
    found: list[Family] = []
    began = time.perf_counter()
    for each in families:
        found.append(each)
        if time.perf_counter() - began > MAX_HOLD_S:
            await asyncio.sleep(0)
            began = time.perf_counter()
    return found
