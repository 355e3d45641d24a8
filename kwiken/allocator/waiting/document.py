"""Document of lines: the classes of quality, the jobs of each line and the nodes of each pool, as JSON."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import check_version, convert, parse_json

LINES_VERSION: Final = 1
MAX_LINES_BYTES: Final = 16 << 20  # of a document
MAX_LINES: Final = 100
MAX_POOL: Final = 100_000  # nodes of a pool, and jobs of a line
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]
_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class LinedJob(_Struct, frozen=True, kw_only=True):
    """Job of a line.

    Attributes:
        quality: quality of node that it needs, from 0 to 100.
        suits: share of the nodes that meet its target, from 0 to 1.
    """

    name: _Name
    quality: _Percent
    suits: Annotated[float, msgspec.Meta(ge=0, le=1)]


class PlannedLine(_Struct, frozen=True, kw_only=True):
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


class LinesDocument(_Struct, frozen=True, kw_only=True):
    """Lines for a list of jobs on a cluster.

    Attributes:
        version: version of the document, 1.
        source: files that the lines were made from.
        lines: lines from the most demanding one down.
    """

    version: int
    source: str
    lines: Annotated[list[PlannedLine], msgspec.Meta(min_length=1, max_length=MAX_LINES)]

    def to_json(self) -> str:
        """Document as JSON text."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"

    @staticmethod
    def from_json(text: str | bytes, *, where: str) -> LinesDocument:
        """Document of a JSON text.

        Args:
            where: source to name in errors, such as a file's path.

        Raises:
            InputError: names the line of broken syntax, or the field that is wrong, unknown, of another
                version, or named twice.
        """
        raw = parse_json(text, where=where, max_bytes=MAX_LINES_BYTES)
        if not isinstance(raw, dict) or "lines" not in raw:
            raise InputError("is no document of lines; kwiken place --lines writes one", where=where)
        check_version(raw.get("version"), LINES_VERSION, where=where)
        found = convert(raw, LinesDocument, where=where)
        for kind, names in (
            ("line", [line.name for line in found.lines]),
            ("job", [job.name for line in found.lines for job in line.jobs]),
            ("node", [node for line in found.lines for node in line.nodes]),
        ):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise InputError(f"{kind} {name!r} is named twice", where=where)
                seen.add(name)
        if any(high.above <= low.above for high, low in pairwise(found.lines)):
            raise InputError("lines: above must fall from the first line to the last", where=where)
        return found
