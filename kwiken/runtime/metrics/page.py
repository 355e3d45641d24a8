"""Metrics that a server process serves to Prometheus."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kwiken.otel.metrics.model import Family
from kwiken.runtime.metrics.reading import read_in_turns

METRICS_PATH: Final = "/metrics"
GZIP_LEVEL: Final = 6
_WEIGHT_OF_NONE: Final = re.compile(r"q=0(?:\.0*)?")


class MetricsText(NamedTuple):
    """Text of metrics.

    Attributes:
        body: the text, encoded and perhaps compressed.
        headers: headers of the response that say how.
    """

    body: bytes
    headers: dict[str, str]


class MetricsPage:
    """Metrics of a server process as text.

    Args:
        collect: function that reads the metrics, each when the iterator is asked for the metric; called in
            the event loop, so that all values of one metric are of the same moment.
    """

    def __init__(self, collect: Callable[[], Iterable[Family]]) -> None:
        self._collect = collect

    async def families(self) -> list[Family]:
        """Read the present metrics; where that takes long, the event loop goes on in between."""
        return await read_in_turns(self._collect())

    async def text(self, accept: str, encodings: str, families: list[Family] | None = None) -> MetricsText:
        """Write metrics in the format that a client accepts, compressed if it accepts gzip.

        Args:
            families: metrics to write; None for the present ones of this process.
            accept: value of its Accept header; empty for none.
            encodings: value of its Accept-Encoding header; empty for none.
        """
        families = await self.families() if families is None else families
        return await asyncio.to_thread(_written, families, accept, compressed=accepts_gzip(encodings))


def accepts_gzip(encodings: str) -> bool:
    """Whether an Accept-Encoding header names gzip with a weight above 0 (RFC 9110, section 12.5.3)."""
    for each in encodings.lower().split(","):
        coding, _, weight = each.replace(" ", "").partition(";")
        if coding == "gzip":
            return _WEIGHT_OF_NONE.fullmatch(weight) is None
    return False


def _written(families: list[Family], accept: str, *, compressed: bool) -> MetricsText:
    # The library takes a tenth of a second to load, and a replica must start quickly.
    from kwiken.otel.metrics.prometheus import exposition

    body, content_type = exposition(families, accept)
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if compressed:
        body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return MetricsText(body, headers)
