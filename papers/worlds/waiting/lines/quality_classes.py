"""Classes of quality: which line a job waits in, and which pool a node belongs to."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError

CLASSES: Final = 10  # lines of the source
MAX_CLASSES: Final = 100
WHOLE: Final = 100.0  # highest quality


@dataclass(frozen=True)
class QualityClasses:
    """Ranges of quality from the most demanding class, 0, down.

    Class `i` covers the qualities above `cuts[i]` and up to `cuts[i - 1]`; the last one covers the rest.

    Attributes:
        cuts: lower ends of every class but the last, falling, from 0 to 100.
    """

    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse cuts that do not fall.

        Raises:
            InputError: too many cuts, one outside 0 to 100, or two that do not fall.
        """
        if len(self.cuts) >= MAX_CLASSES:
            raise InputError(f"at most {MAX_CLASSES} classes", where="cuts")
        if not all(0 <= cut <= WHOLE for cut in self.cuts):
            raise InputError("cuts must be from 0 to 100", where="cuts")
        if any(low >= high for high, low in zip(self.cuts, self.cuts[1:], strict=False)):
            raise InputError("cuts must fall from the first class to the last", where="cuts")

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.cuts) + 1

    def of(self, quality: float) -> int:
        """Class of a quality.

        Args:
            quality: from 0 to 100; what lies outside belongs to the nearer end.
        """
        return bisect.bisect_right(self.cuts, -quality, key=lambda cut: -cut)

    def middle(self, number: int) -> float:
        """Middle of a class, as a share from 0 to 1: what a node of the class is worth.

        Args:
            number: number of the class, from 0.
        """
        high = self.cuts[number - 1] if number else WHOLE
        low = self.cuts[number] if number < len(self.cuts) else 0.0
        return (high + low) / (2 * WHOLE)


def equal_classes(count: int = CLASSES) -> QualityClasses:
    """Classes of equal width.

    Args:
        count: number of classes, from 1 to 100.
    """
    _check(count)
    return QualityClasses(tuple(WHOLE * (count - 1 - number) / count for number in range(count - 1)))


def quantile_classes(qualities: Sequence[float], count: int = CLASSES) -> QualityClasses:
    """Classes that equally many of some jobs belong to; fewer where qualities coincide.

    Args:
        qualities: qualities that recent jobs needed, from 0 to 100; one or more.
        count: number of classes at most, from 1 to 100.
    """
    _check(count)
    ordered = sorted(qualities, reverse=True)
    if not ordered:
        raise InputError("needs the quality of one job or more", where="qualities")
    cuts: list[float] = []
    for number in range(1, count):
        after = min(len(ordered) - 1, math.ceil(len(ordered) * number / count))
        cut = ordered[after]
        if cut < ordered[0] and (not cuts or cut < cuts[-1]):
            cuts.append(max(0.0, cut))
    return QualityClasses(tuple(cuts))


def _check(count: int) -> None:
    if not 1 <= count <= MAX_CLASSES:
        raise InputError(f"must be from 1 to {MAX_CLASSES}, not {count}", where="classes")
