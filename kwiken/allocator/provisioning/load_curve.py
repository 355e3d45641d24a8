"""Load curve: cores that work asks for over time, read from CSV or from a range result of Prometheus."""

from __future__ import annotations

import csv
import math
import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import parse_json, to_str

MAX_LOAD_BYTES: Final = 64 << 20  # of a document of load
MAX_SAMPLES: Final = 1_000_000
MAX_SERIES: Final = 10_000
MAX_LOAD: Final = 1e9  # cores, or requests a second
MAX_TIME_S: Final = 1e12  # some 30,000 years; milliseconds since 1970 are above it
MIN_SAMPLES: Final = 2
GAP: Final = 1.5  # of the usual step, from which on a step is a gap
S_PER_HOUR: Final = 3600.0
S_PER_DAY: Final = 86_400.0
COLUMNS: Final = ("time", "cores", "requests_per_s", "tolerant")
_DAY: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?)?(Z|[+-]00:?00)?", re.ASCII
)
_DAYS_BEFORE_MONTH: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@dataclass(frozen=True, eq=False)
class LoadCurve:
    """Cores that work asks for, in steps of equal length.

    Attributes:
        start_s: moment of the first step, seconds on the document's clock.
        step_s: length of a step, seconds.
        cores: (n,) number of cores asked for in each step.
        tolerant: (n,) number of those cores whose work may be interrupted and wait.
    """

    start_s: float
    step_s: float
    cores: Floats
    tolerant: Floats

    @property
    def mean(self) -> float:
        """Mean number of cores."""
        return float(self.cores.mean())

    @property
    def hours(self) -> float:
        """Length in units of hours."""
        return len(self.cores) * self.step_s / S_PER_HOUR

    @property
    def steps_per_day(self) -> int:
        """Number of steps in a day, 1 or more."""
        return max(1, round(S_PER_DAY / self.step_s))

    def part(self, first: int, last: int) -> LoadCurve:
        """Steps from `first` to before `last`."""
        return LoadCurve(
            self.start_s + first * self.step_s, self.step_s, self.cores[first:last], self.tolerant[first:last]
        )


def curve_of(
    start_s: float, step_s: float, cores: Sequence[float] | Floats, tolerant: float | Floats = 0.0
) -> LoadCurve:
    """Load curve of plain values.

    Args:
        start_s: moment of the first step, seconds.
        step_s: length of a step, seconds.
        cores: (n,) number of cores asked for in each step.
        tolerant: share of all work that may be interrupted, 0 to 1; or (n,) its number of cores.
    """
    values = np.asarray(cores, dtype=np.float64)
    part = np.asarray(tolerant) * values if np.ndim(tolerant) == 0 else np.asarray(tolerant, dtype=np.float64)
    return LoadCurve(start_s, step_s, values, np.minimum(part, values))


def load_from_text(
    text: str | bytes, *, where: str, cores_per_request_rate: float | None = None, tolerant: float = 0.0
) -> LoadCurve:
    """Load curve of a document: a range result of Prometheus if it is JSON, else CSV.

    Args:
        text: CSV with a head of `time`, one of `cores` and `requests_per_s`, and `tolerant` if wanted;
            times are seconds, or as 2026-11-01T12:00:00Z. Or the JSON that Prometheus answers to a range
            query; its series are added up.
        cores_per_request_rate: number of cores that one request a second keeps busy; None for load in
            cores.
        tolerant: share of the work that may be interrupted where the document has no such column, 0 to 1.

    Raises:
        InputError: names the line or series: a gap, times that go back, NaN, less than two samples, a column
            that is unknown or missing.
    """
    source = to_str(text, where=where, max_bytes=MAX_LOAD_BYTES)
    if source.lstrip().startswith(("{", "[")):
        times, values = _prometheus(source, where)
        unit, marks, parts = ("cores" if cores_per_request_rate is None else "requests_per_s"), None, None
    else:
        unit, times, values, parts, marks = _csv(source, where)
    if len(times) < MIN_SAMPLES:
        told = "one sample" if times else "no sample"
        raise InputError(f"has {told}; two or more are needed to know the step", where=where)
    step_s = _step(times, where, marks)
    if unit == "requests_per_s" and cores_per_request_rate is None:
        raise InputError(
            "is in requests a second; give --profile or --request-ms, which say what a request costs",
            where=where,
        )
    if unit == "cores" and cores_per_request_rate is not None:
        raise InputError("is in cores, so --profile and --request-ms do not go with it", where=where)
    factor = 1.0 if unit == "cores" or cores_per_request_rate is None else cores_per_request_rate
    part: float | Floats = tolerant if parts is None else factor * np.array(parts)
    return curve_of(times[0], step_s, factor * np.array(values), part)


def _csv(source: str, where: str) -> tuple[str, list[float], list[float], list[float] | None, list[int]]:
    """Unit, times in seconds, values, tolerant values and line numbers of a CSV."""
    rows = csv.reader(source.splitlines())
    head, unit = _head(rows, f"{where}:1")
    at, value, part = (head.index(name) if name in head else -1 for name in ("time", unit, "tolerant"))
    times: list[float] = []
    values: list[float] = []
    parts: list[float] = []
    marks: list[int] = []
    for line, cells in _lines(rows, where):
        if len(cells) != len(head):
            raise InputError(f"has {len(cells)} cells, and the head {len(head)}", where=f"{where}:{line}")
        times.append(_moment(cells[at], f"{where}:{line}"))
        values.append(_amount(cells[value], unit, f"{where}:{line}"))
        if part >= 0:
            parts.append(_amount(cells[part], "tolerant", f"{where}:{line}"))
            if parts[-1] > values[-1]:
                raise InputError(
                    f"tolerant: is {parts[-1]:g}, more than all work, {values[-1]:g}", where=f"{where}:{line}"
                )
        marks.append(line)
        if len(times) > MAX_SAMPLES:
            raise InputError(f"has more than {MAX_SAMPLES} samples", where=f"{where}:{line}")
    return unit, times, values, parts if part >= 0 else None, marks


def _head(rows: Any, where: str) -> tuple[list[str], str]:
    """Names of the columns, and the one that holds the load."""
    try:
        head = [name.strip() for name in next(rows)]
    except (StopIteration, csv.Error) as error:
        raise InputError("has no head line", where=where) from error
    for name in head:
        if name not in COLUMNS:
            raise InputError(f"unknown column {name!r}; known: {', '.join(COLUMNS)}", where=where)
    if len(set(head)) < len(head):
        raise InputError("a column is given twice", where=where)
    units = [name for name in ("cores", "requests_per_s") if name in head]
    if "time" not in head or len(units) != 1:
        raise InputError("needs the columns time and one of cores and requests_per_s", where=where)
    return head, units[0]


def _lines(rows: Any, where: str) -> Iterator[tuple[int, list[str]]]:
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"broken CSV: {error}", where=f"{where}:{rows.line_num}") from error
        if cells:
            yield rows.line_num, cells


def _amount(cell: str, name: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MAX_LOAD:  # NaN fails too
        raise InputError(
            f"{name}: must be a number from 0 to {MAX_LOAD:g}, not {cell.strip()!r}", where=where
        )
    return value


def _moment(cell: str, where: str) -> float:
    """Seconds of a time: a number as it is, a day and time of day in UTC since 1970."""
    words = cell.strip()
    if (found := _DAY.fullmatch(words)) is not None:
        year, month, day, hour, minute = (int(found[place] or 0) for place in range(1, 6))
        second = float(found[6] or 0.0)
        is_day = year >= 1970 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]  # noqa: PLR2004 - the calendar
        if is_day and hour < 24 and minute < 60 and second < 60:  # noqa: PLR2004 - the calendar
            return _days(year, month, day) * S_PER_DAY + hour * S_PER_HOUR + minute * 60 + second
    else:
        try:
            value = float(words)
        except ValueError:
            value = math.nan
        if -MAX_TIME_S <= value <= MAX_TIME_S:  # NaN fails
            return value
    raise InputError(f"time: must be seconds, or UTC as 2026-11-01T12:00:00Z, not {words!r}", where=where)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar."""
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400 - 477  # those before 1970
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 365 * (year - 1970) + leaps + _DAYS_BEFORE_MONTH[month - 1] + (is_leap and month > 2) + day - 1  # noqa: PLR2004 - February


def _series(source: str, where: str) -> list[Any]:
    """Pairs of time and value of each series of a range result."""
    raw = parse_json(source, where=where, max_bytes=MAX_LOAD_BYTES)
    if isinstance(raw, dict) and raw.get("status") == "error":
        raise InputError(f"Prometheus has answered with an error: {raw.get('error')!r}", where=where)
    try:
        data = raw.get("data", raw)
        kind, series = data["resultType"], data["result"]
        pairs = [one["values"] for one in series]
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            "is no range result of Prometheus: data.result[].values is missing", where=where
        ) from error
    if kind != "matrix":
        raise InputError(f"data.resultType: must be 'matrix', a range result, not {kind!r}", where=where)
    if not 0 < len(pairs) <= MAX_SERIES:
        raise InputError(f"data.result: must have 1 to {MAX_SERIES} series, not {len(pairs)}", where=where)
    return pairs


def _prometheus(source: str, where: str) -> tuple[list[float], list[float]]:
    """Times and sums over the series of a range result."""
    sums: dict[float, float] = {}
    count = 0
    for place, values in enumerate(_series(source, where)):
        before = -math.inf
        label = f"{where}: data.result[{place}].values"
        if not isinstance(values, list):
            raise InputError("must be a list of pairs of time and value", where=label)
        for index, pair in enumerate(values):
            which = f"{label}[{index}]"
            if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - time and value
                raise InputError("must be a pair of time and value", where=which)
            at, value = _moment(str(pair[0]), which), _amount(str(pair[1]), "value", which)
            if at <= before:
                raise InputError(f"time {at:.15g} does not follow {before:.15g}", where=which)
            before = at
            sums[at] = sums.get(at, 0.0) + value
            count += 1
            if count > MAX_SAMPLES:
                raise InputError(f"has more than {MAX_SAMPLES} samples", where=where)
    times = sorted(sums)
    return times, [sums[at] for at in times]


def _step(times: Sequence[float], where: str, marks: Sequence[int] | None) -> float:
    """Usual step, seconds; refuses times that go back and gaps."""
    steps = np.diff(np.array(times))

    def place(index: int) -> str:
        return where if marks is None else f"{where}:{marks[index + 1]}"

    back = int(np.argmin(steps))
    if steps[back] <= 0:
        raise InputError(
            f"time {times[back + 1]:.15g} s does not follow {times[back]:.15g} s", where=place(back)
        )
    usual = float(np.median(steps))
    wide = np.flatnonzero((steps > GAP * usual) | (steps < usual / GAP))
    if len(wide):
        first = int(wide[0])
        raise InputError(
            f"the step to this sample is {steps[first]:g} s and the usual one {usual:g} s; fill the gap, or "
            "give a part without one",
            where=place(first),
        )
    return float((times[-1] - times[0]) / (len(times) - 1))
