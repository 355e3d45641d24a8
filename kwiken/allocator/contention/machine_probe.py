"""Document of a machine probe: calibrations and crosstalk of its contention kernels, as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from kwiken.allocator.contention.calibration import Calibration
from kwiken.allocator.contention.crosstalk import Crosstalk
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument, StrictStruct

MAX_POINTS: Final = 1_000  # of one calibration


@dataclass(frozen=True, eq=False)
class MachineProbe:
    """Findings of a probe on a machine.

    Attributes:
        processors: number of processors that the probe could use.
        sizes: by source, bytes that its kernel works on at full level; 0 where that has no meaning.
        assumed: sizes that the system did not tell, so that usual ones were taken.
        calibrations: by source, what its kernel reaches.
        crosstalk: what kernels cost one another; None where it was not measured.
    """

    processors: int
    sizes: dict[str, int]
    assumed: tuple[str, ...]
    calibrations: dict[str, Calibration]
    crosstalk: Crosstalk | None


class _Source(StrictStruct, frozen=True):
    size_bytes: int
    levels: list[float]
    drives: list[float]
    reached: list[float]
    peak: float


class _Crosstalk(StrictStruct, frozen=True):
    sources: list[str]
    level: float
    losses: list[list[float]]


class _Document(JsonDocument, frozen=True):
    FORMAT: ClassVar = DocumentFormat()

    version: int
    processors: int
    assumed: list[str]
    sources: dict[str, _Source]
    crosstalk: _Crosstalk | None = None


def probe_to_json(probe: MachineProbe) -> str:
    """The document, with a newline at its end."""
    cross = probe.crosstalk
    return _Document(
        version=_Document.FORMAT.version,
        processors=probe.processors,
        assumed=list(probe.assumed),
        sources={
            name: _Source(
                size_bytes=probe.sizes.get(name, 0),
                levels=list(each.levels),
                drives=[round(drive, 6) for drive in each.drives],
                reached=[round(share, 6) for share in each.reached],
                peak=each.peak,
            )
            for name, each in probe.calibrations.items()
        },
        crosstalk=None
        if cross is None
        else _Crosstalk(
            sources=list(cross.sources), level=cross.level, losses=np.round(cross.losses, 4).tolist()
        ),
    ).to_json()


def probe_from_json(text: str | bytes, *, where: str) -> MachineProbe:
    """Read a document that `probe_to_json` wrote.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: broken JSON, another version, unknown or missing fields, or values out of range.
    """
    document = _Document.from_json(text, where=where)
    try:
        return MachineProbe(
            document.processors,
            {name: each.size_bytes for name, each in document.sources.items()},
            tuple(document.assumed),
            {name: _calibration(name, each) for name, each in document.sources.items()},
            None if document.crosstalk is None else _crosstalk(document.crosstalk),
        )
    except ValueError as error:
        raise InputError(str(error), where=where) from error


def _calibration(name: str, told: _Source) -> Calibration:
    path = f"sources.{name}"
    if name not in SOURCES:
        raise ValueError(f"{path}: no such source; known: {', '.join(SOURCES)}")
    if not 2 <= len(told.levels) <= MAX_POINTS:  # noqa: PLR2004 - a line
        raise ValueError(f"{path}.levels: 2 to {MAX_POINTS} are needed, not {len(told.levels)}")
    for field, values in (("drives", told.drives), ("reached", told.reached)):
        if len(values) != len(told.levels):
            raise ValueError(f"{path}.{field}: has {len(values)} values for {len(told.levels)} levels")
    if told.levels != sorted(set(told.levels)) or told.levels[0] != 0 or told.levels[-1] != 1:
        raise ValueError(f"{path}.levels: must rise from 0 to 1")
    if not all(0 <= drive <= 1 for drive in told.drives):
        raise ValueError(f"{path}.drives: must be from 0 to 1")
    if not all(math.isfinite(share) and share >= 0 for share in told.reached):
        raise ValueError(f"{path}.reached: must be finite and at least 0")
    if not 0 < told.peak < math.inf:
        raise ValueError(f"{path}.peak: must be a finite number above 0, not {told.peak}")
    return Calibration(name, tuple(told.levels), tuple(told.drives), tuple(told.reached), told.peak)


def _crosstalk(told: _Crosstalk) -> Crosstalk:
    for name in told.sources:
        if name not in SOURCES:
            raise ValueError(f"crosstalk.sources: no source {name!r}")
    count = len(told.sources)
    if len(told.losses) != count or any(len(line) != count for line in told.losses):
        raise ValueError(f"crosstalk.losses: must be {count} rows of {count}")
    losses = np.array(told.losses, dtype=float).reshape(count, count)
    if not np.isfinite(losses).all():
        raise ValueError("crosstalk.losses: must be finite")
    return Crosstalk(tuple(told.sources), told.level, losses)
