"""Quantities of Kubernetes, such as 250m, 1.5, 2Gi and 1e3, as numbers."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from kwiken.base.errors import InputError

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?\d{1,30}(?:\.\d{0,30})?|[+-]?\.\d{1,30})(?P<unit>[numkKMGTPE]i?|[eE][+-]?\d{1,2}|)\Z",
    re.ASCII,
)
_UNITS: Final = {
    **{
        unit: 10.0 ** (3 * power)
        for power, unit in zip(range(-3, 7), ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), strict=True)
    },
    **{unit: 1024.0**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
BYTES_PER_GB: Final = 1e9
MAX_QUANTITY: Final = 2.0**63  # of Kubernetes, which cuts larger ones down to it


def quantity(text: Any, *, where: str) -> float:
    """Number of a quantity.

    Args:
        text: a quantity as text, or a plain number.
        where: field to name in errors.

    Raises:
        InputError: for None, text that is no quantity, a negative one, or one above 2^63.
    """
    if text is None:
        raise InputError("is missing", where=where)
    value = math.nan
    if isinstance(text, int | float) and not isinstance(text, bool):
        value = float(text) if abs(text) <= MAX_QUANTITY else math.inf
    elif isinstance(text, str):
        found = _QUANTITY.match(text)
        if found is not None:
            unit = found["unit"]
            factor = _UNITS.get(unit)
            if factor is not None:
                value = float(found["number"]) * factor
            elif unit[:1] in {"e", "E"} and len(unit) > 1:
                value = float(found["number"] + unit)
    if value > MAX_QUANTITY:
        raise InputError("is more than 2^63, the most that Kubernetes counts", where=where)
    if not value >= 0:  # NaN fails too
        raise InputError(f"{text!r} is no quantity of 0 or more, such as 250m, 1.5 or 2Gi", where=where)
    return value
