"""Data model of metrics: what a metric is, and its points at one moment.

Points are read from the counters of a running process when somebody asks for them. Nothing is counted twice,
and the path of a request pays for no instrument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from kwiken.otel.write.labels import shorten

Value = float | int
MAX_PIECE: Final = 200  # points that are built at once: about 3 ms of distributions
MAX_TEXTS: Final = 1 << 14  # attribute values that are kept as text: most recur at every reading


class MetricKind(StrEnum):
    """Kind of a metric: an instrument of OpenTelemetry, or `info` for facts that are labels with value 1."""

    COUNTER = "counter"
    UP_DOWN_COUNTER = "updowncounter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a metric.

    Attributes:
        name: name as in OpenTelemetry, in lower case with dots.
        unit: unit as UCUM has it, such as `s`, `By`, `1` or `{call}`; empty for facts.
        help: the quantity, in one phrase.
        question: question of an operator that the metric answers.
    """

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...] = ()
    help: str
    question: str


class Exemplar(NamedTuple):
    """One measurement with its trace.

    Attributes:
        value: the measurement, in the unit of its metric.
        at_ns: time of the measurement, nanoseconds since 1970.
        trace_id: trace id, 128 bits.
        span_id: span id, 64 bits.
    """

    value: float
    at_ns: int
    trace_id: int
    span_id: int


class Distribution(NamedTuple):
    """Base-2 exponential histogram.

    Attributes:
        scale: bucket i holds values from above 2**(i / 2**scale) to 2**((i + 1) / 2**scale).
        first: index of the first bucket in `counts`.
        size: number of all values.
        total: sum of all values.
        exemplars: measurements with traces, at most a few for each octave.
    """

    scale: int
    first: int
    counts: Sequence[int]
    size: int
    total: float
    exemplars: Sequence[Exemplar] = ()


class Point(NamedTuple):
    """Value of a metric for one combination of attribute values, in the order of the metric's labels."""

    labels: tuple[str, ...]
    value: Value | Distribution


class Family(NamedTuple):
    """A metric with all its points at one moment."""

    metric: Metric
    points: tuple[Point, ...]


def family(
    metric: Metric, points: Iterable[tuple[tuple[str | int | bool, ...], Value | Distribution]]
) -> Family:
    """Build a family; attribute values become text of bounded length, truth values `true` and `false`.

    Raises:
        ValueError: a point has more or fewer attribute values than the metric has labels.
    """
    made = tuple([Point(tuple(map(_text, labels)), value) for labels, value in points])
    for point in made:
        if len(point.labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not the values {point.labels}")
    return Family(metric, made)


def in_pieces(
    metric: Metric, points: Iterable[tuple[tuple[str | int | bool, ...], Value | Distribution]]
) -> Iterator[Family]:
    """Build a family of many points in pieces, each when it is asked for; see `family`."""
    rest = iter(points)
    while True:
        piece = family(metric, islice(rest, MAX_PIECE))
        yield piece
        if len(piece.points) < MAX_PIECE:
            return


@lru_cache(MAX_TEXTS, typed=True)  # 1 is not True
def _text(value: str | int | bool) -> str:  # noqa: FBT001 - an attribute value
    if isinstance(value, bool):
        return "true" if value else "false"
    return shorten(value) if isinstance(value, str) else str(value)


class Rising:
    """Counters that never fall, from sums that may: a refund delays the counter and does not lower it.

    A reader of a counter takes a fall for a restart of the process and counts everything again.
    """

    __slots__ = ("_most",)

    def __init__(self) -> None:
        self._most: dict[tuple[str, ...], float] = {}

    def __call__(self, key: tuple[str, ...], value: float) -> float:
        """Largest value of this key so far."""
        most = self._most[key] = max(value, self._most.get(key, 0.0))
        return most
