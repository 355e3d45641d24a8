"""Document of lines: the classes of quality, the jobs of each line and the nodes of each pool, as JSON."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument, StrictStruct

LINES_VERSION: Final = 1
MAX_LINES_BYTES: Final = 16 << 20  # of a document
MAX_LINES: Final = 100
MAX_POOL: Final = 100_000  # nodes of a pool, and jobs of a line
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]
_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class LinedJob(StrictStruct, frozen=True, kw_only=True):
    """Job of a line.

    Attributes:
        quality: quality of node that it needs, from 0 to 100.
        suits: share of the nodes that meet its target, from 0 to 1.
    """

    name: _Name
    quality: _Percent
    suits: Annotated[float, msgspec.Meta(ge=0, le=1)]


class PlannedLine(StrictStruct, frozen=True, kw_only=True):
    """Line with its pool, the most demanding line first.

    Attributes:
        above: quality above which jobs and nodes belong to the line, from 0 to 100; 0 for the last line.
        nodes: names of the nodes of the pool, while they are empty.
        cores: number of cores of the pool, 0 or more.
        memory_gb: memory of the pool, in GB, 0 or more.
    """

    name: _Name
    above: _Percent
    jobs: Annotated[list[LinedJob], msgspec.Meta(max_length=MAX_POOL)]
    nodes: Annotated[list[_Name], msgspec.Meta(max_length=MAX_POOL)]
    cores: _NotNegative
    memory_gb: _NotNegative


class LinesDocument(JsonDocument, frozen=True, kw_only=True):
    """Lines for a list of jobs on a cluster.

    Attributes:
        version: version of the document, 1.
        source: files that the lines were made from.
        lines: lines from the most demanding one down.
    """

    FORMAT: ClassVar = DocumentFormat(
        LINES_VERSION,
        MAX_LINES_BYTES,
        ("lines",),
        "is no document of lines; kwiken place --lines writes one",
    )

    version: int
    source: str
    lines: Annotated[list[PlannedLine], msgspec.Meta(min_length=1, max_length=MAX_LINES)]

    def check(self, where: str) -> None:
        """Check that names are given once, and that the lines fall."""
        for kind, names in (
            ("line", [line.name for line in self.lines]),
            ("job", [job.name for line in self.lines for job in line.jobs]),
            ("node", [node for line in self.lines for node in line.nodes]),
        ):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise InputError(f"{kind} {name!r} is named twice", where=where)
                seen.add(name)
        if any(high.above <= low.above for high, low in pairwise(self.lines)):
            raise InputError("lines: above must fall from the first line to the last", where=where)
