"""Reading of metrics in the event loop, in pieces, so that other work of the loop goes on in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from kwiken.otel.metrics.model import Family, Metric, Point

MAX_HOLD_S: Final = 0.001  # of the event loop, by the metrics that are read in a row


async def read_in_turns(families: Iterable[Family]) -> list[Family]:
    """Read metrics; the values of a piece are of one moment.

    Args:
        families: the metrics, each read when it is asked for; those in pieces are joined.
    """
    found: list[tuple[Metric, list[Point]]] = []
    began = time.perf_counter()
    for each in families:
        if not found or found[-1][0] is not each.metric:
            found.append((each.metric, []))
        found[-1][1].extend(each.points)
        if time.perf_counter() - began > MAX_HOLD_S:
            await asyncio.sleep(0)
            began = time.perf_counter()
    return [Family(metric, tuple(points)) for metric, points in found]
