"""Bounds that a row has to keep, and how one follows from the value that a source states."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Bound", "stated_bound"]

RELATIVE: Final = 0.10  # distance within which a value counts as that of the source
_NUMBER: Final = r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e-?\d+)?"
_AT_MOST: Final = re.compile(
    rf"(?:<|<=|below|less than|at most|up to|no more than) ?({_NUMBER})(?: mostly)?"
    rf"|({_NUMBER}) (?:or less|at most)"
)
_AT_LEAST: Final = re.compile(
    rf"(?:>|>=|above|more than|at least|no less than) ?({_NUMBER})|({_NUMBER}) or more"
)
_BETWEEN: Final = re.compile(rf"({_NUMBER}) to ({_NUMBER})(?: mostly)?")
_WITHIN: Final = re.compile(rf"within ({_NUMBER})(?: \(.*\))?")
_NEAR: Final = re.compile(rf"(?:about |near )?({_NUMBER})(?: \(.*\))?")


@dataclass(frozen=True)
class Bound:
    """Lowest and highest value that counts as met, both included, in the unit of the row."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, value: float) -> bool:
        """Whether a value is within the bound; NaN is not."""
        return self.low <= value <= self.high


def stated_bound(source: str, *, error: bool = False) -> Bound | None:
    """Bound that the text of a source's value states; None if the text has no number to compare with.

    There are five cases: 1. at most a number, or a fall of up to one, 2. at least a number, 3. a range, 4. a
    distance from 0 and 5. a number alone, which is met within 10% of it, or within half a unit of its last
    printed digit.

    Args:
        error: whether the value is an error, of which less than the source's is as good.
    """
    if match := _AT_MOST.fullmatch(source):
        value = _number(match[1] or match[2])
        return Bound(value, 0.0) if source.startswith("up to -") else Bound(high=value)
    if match := _AT_LEAST.fullmatch(source):
        return Bound(low=_number(match[1] or match[2]))
    if match := _BETWEEN.fullmatch(source):
        low, high = sorted((_number(match[1]), _number(match[2])))
        return Bound(-high if error else low, high)
    if match := _WITHIN.fullmatch(source):
        return Bound(-_number(match[1]), _number(match[1]))
    if match := _NEAR.fullmatch(source):
        value = _number(match[1])
        reach = max(RELATIVE * abs(value), half_unit(match[1]))
        return Bound(-abs(value) - reach if error else value - reach, value + reach)
    return None


def half_unit(text: str) -> float:
    """Half a unit of the last digit of a printed number."""
    digits, _, exponent = text.partition("e")
    _, _, decimals = digits.partition(".")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(decimals))


def _number(text: str) -> float:
    return float(text.replace(",", ""))
