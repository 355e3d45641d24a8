"""Metrics that a server process serves to Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kwiken.otel.metrics import Family

METRICS_PATH: Final = "/metrics"


class MetricsText(NamedTuple):
    """Text of metrics."""

    body: bytes
    content_type: str


class MetricsPage:
    """Metrics of a server process as text.

    Args:
        collect: function that reads the metrics; called in the event loop, so that all values
            are of the same moment.
    """

    def __init__(self, collect: Callable[[], Iterable[Family]]) -> None:
        self._collect = collect

    async def text(self, accept: str) -> MetricsText:
        """Write the present metrics in the format that a client accepts.

        Args:
            accept: value of its Accept header; empty for none.
        """
        families = list(self._collect())
        return await asyncio.to_thread(_written, families, accept)


def _written(families: list[Family], accept: str) -> MetricsText:
    # The library takes a tenth of a second to load, and a replica must start quickly.
    from kwiken.otel.metrics import exposition

    return MetricsText(*exposition(families, accept))
