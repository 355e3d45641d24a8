"""Option values of batch verbs: ranges of executors, and sizes of input."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

MAX_EXECUTORS: Final = 100_000
MAX_POINTS: Final = 40  # of a range that is predicted
_RANGE: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?", re.ASCII)
_NUMBER: Final = r"(\d{1,12}(?:\.\d{1,9})?)"
_SIZE: Final = re.compile(_NUMBER + r"(k|M|G|T|P)?B", re.ASCII)
_TIMES: Final = re.compile(_NUMBER + "x", re.ASCII)
_UNITS: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


class ExecutorRange(click.ParamType[Any]):
    """Numbers of executors: one, or a range such as 10..200, thinned by equal ratios."""

    name = "range"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Parse one number or a range."""
        if isinstance(value, tuple):
            return value
        found = _RANGE.fullmatch(str(value))
        low = int(found[1]) if found else 0
        high = int(found[2] or found[1]) if found else 0
        if not 1 <= low <= high <= MAX_EXECUTORS:
            self.fail(f"{value!r} is no number of executors; write 20, or 10..200 as a range", param, ctx)
        return spread(low, high)


def spread(low: int, high: int) -> tuple[int, ...]:
    """Whole numbers from `low` to `high` in about equal ratios, both ends included."""
    count = min(MAX_POINTS, high - low + 1)
    if count == 1:
        return (low,)
    ratio = (high / low) ** (1 / (count - 1))
    return tuple(sorted({low, high, *(round(low * ratio**step) for step in range(count))}))


@dataclass(frozen=True)
class InputSize:
    """Size of the input that a prediction is for.

    Attributes:
        bytes: bytes of input; None where only the ratio is given.
        times: ratio to the input of the last run; None where bytes are given.
    """

    bytes: float | None
    times: float | None

    def of(self, read: int) -> float:
        """Bytes of input, where the last run read `read`."""
        return self.bytes if self.bytes is not None else (self.times or 1.0) * read


class Moment(click.ParamType[Any]):
    """Moment such as 2026-01-30T09:00, UTC unless it says otherwise, as seconds since 1970."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse a moment."""
        if isinstance(value, float):
            return value
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            return self.fail(f"{value!r} is no time; write 2026-01-30T09:00", param, ctx)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


class InputSizeType(click.ParamType[Any]):
    """Size of input: bytes such as 20GB, or a multiple such as 1.5x."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> InputSize:
        """Parse a size or a multiple."""
        if isinstance(value, InputSize):
            return value
        times, size = _TIMES.fullmatch(str(value)), _SIZE.fullmatch(str(value))
        if times and float(times[1]) > 0:
            return InputSize(None, float(times[1]))
        if size and float(size[1]) > 0:
            return InputSize(float(size[1]) * _UNITS[size[2] or ""], None)
        return self.fail(
            f"{value!r} is no size; write 20GB, or 1.5x for a multiple of the last run's", param, ctx
        )
