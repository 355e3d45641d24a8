"""Excess of slow requests by service, as a sentence and as a table: the answer to what makes a tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwiken.apps.report.model import Table, count, ms

if TYPE_CHECKING:
    from kwiken.tail.diagnosis import ServiceExcess, SlowRequests

MAX_PARTS_SHOWN = 10


def excess_sentence(slow: SlowRequests) -> str:
    """Say how much longer slow requests take, and which services take that time; without a full stop.

    Args:
        slow: slow requests, with the excess of each service.
    """
    verb = "takes" if slow.requests == 1 else "take"
    who = f"The slowest {slow.share:.0%} ({count(slow.requests, 'request')}) {verb}"
    if not slow.leading:
        return f"{who} no longer than the medians of all {slow.by}s add up to"
    parts = {part.name: part for part in slow.services}
    named = [f"{name} {ms(parts[name].excess_ms)} ({parts[name].share:.0%})" for name in slow.leading]
    return f"{who} {ms(slow.excess_ms)} more than the medians of all {slow.by}s add up to: {', '.join(named)}"


def excess_table(slow: Sequence[SlowRequests]) -> Table:
    """Table with the excess of each service, largest first in the last of `slow`; the last row is the sum.

    The rows are those with the largest excess in any of `slow`.

    Args:
        slow: excess by service for each share of slow requests, one or more.
    """
    order = [part.name for part in slow[-1].services]
    largest = sorted(order, key=lambda name: -max(_part(each, name).excess_ms for each in slow))
    shown = [name for name in order if name in largest[:MAX_PARTS_SHOWN]]
    rest = largest[MAX_PARTS_SHOWN:]
    rows = [_row(name, slow, [name]) for name in shown]
    if rest:
        rows.append(_row(f"{len(rest)} others", slow, rest))
    rows.append(_row("all", slow, order))
    by = slow[-1].by
    columns = [column for each in slow for column in (f"slowest {each.share:.0%}, ms more", "share")]
    numbers = " or ".join(dict.fromkeys(f"{each.requests:,}" for each in slow))
    which = "slowest request" if numbers == "1" else f"{numbers} slowest requests"
    return Table(
        head=(by, "median ms", *columns),
        body=tuple(rows),
        caption=f"ms more: mean over the {which}, less the {by}'s own median over all",
        strong=slow[-1].leading,
    )


def _part(slow: SlowRequests, name: str) -> ServiceExcess:
    return next(part for part in slow.services if part.name == name)


def _row(label: str, slow: Sequence[SlowRequests], names: Sequence[str]) -> tuple[str, ...]:
    """Row of one service, or of several together."""
    row = [label, f"{sum(_part(slow[0], name).median_ms for name in names):.2f}"]
    for each in slow:
        parts = [_part(each, name) for name in names]
        excess, share = sum(part.excess_ms for part in parts), sum(part.share for part in parts)
        # Adding 0 after rounding takes the sign off a zero.
        row += [f"{round(excess, 2) + 0.0:.2f}", f"{round(share, 2) + 0.0:.0%}"]
    return tuple(row)
