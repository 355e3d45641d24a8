"""Table of the services that make slow requests slow: their excess over their own medians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwiken.diagnosis import ServiceExcess, SlowRequests

MAX_SERVICES_SHOWN = 10


def excess_table(slow: Sequence[SlowRequests]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows of the table, largest excess first; the last row is the sum.

    Args:
        slow: excess by service for each share of slow requests.
    """
    order = [part.name for part in slow[-1].services]
    order.sort(key=lambda name: -max(_part(each, name).excess_ms for each in slow))
    shown, rest = order[:MAX_SERVICES_SHOWN], order[MAX_SERVICES_SHOWN:]
    rows = [_row(name, slow, [name]) for name in shown]
    if rest:
        rows.append(_row(f"{len(rest)} others", slow, rest))
    rows.append(_row("all", slow, order))
    columns = [column for each in slow for column in (f"slowest {each.share:.0%}, ms more", "share")]
    return ("service", "median ms", *columns), rows


def _part(slow: SlowRequests, name: str) -> ServiceExcess:
    return next(part for part in slow.services if part.name == name)


def _row(label: str, slow: Sequence[SlowRequests], names: Sequence[str]) -> tuple[str, ...]:
    """Row of one service, or of several together."""
    row = [label, f"{sum(_part(slow[0], name).median_ms for name in names):.2f}"]
    for each in slow:
        parts = [_part(each, name) for name in names]
        row += [f"{sum(part.excess_ms for part in parts):.2f}", f"{sum(part.share for part in parts):.0%}"]
    return tuple(row)
