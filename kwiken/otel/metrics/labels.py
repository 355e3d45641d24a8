"""Bound on the number of series of a metric whose attribute values come from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from kwiken.otel.write.labels import OTHER, shorten

MAX_SERIES: Final = 200  # of one metric and stage

Labels = tuple[str, ...]
T = TypeVar("T")


def bounded(items: Iterable[tuple[Labels, T]], merge: Callable[[list[T]], T]) -> Iterator[tuple[Labels, T]]:
    """Limit the number of label combinations; the rest become one point whose labels are all `(other)`.

    Values are cut to a readable length on one line. Combinations that are alike afterwards are merged. The
    choice of those that stay depends on nothing but their order, so a series does not come and go.

    Args:
        items: attribute values, each with a value.
        merge: function that makes one value of several.
    """
    kept: dict[Labels, list[T]] = {}
    rest: list[T] = []
    for labels, value in items:
        short = tuple(shorten(label) for label in labels)
        if short in kept or len(kept) < MAX_SERIES:
            kept.setdefault(short, []).append(value)
        else:
            rest.append(value)
    for labels, values in kept.items():
        yield labels, values[0] if len(values) == 1 else merge(values)
    if rest:
        yield (OTHER,) * len(next(iter(kept))), merge(rest)
