"""Excess of slow requests by service and link, as a sentence and a table: the answer to what makes a tail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kwiken.apps.report.model.number_format import count, ms
from kwiken.apps.report.model.page import Table

if TYPE_CHECKING:
    from kwiken.tail.diagnosis.excess import ServiceExcess, SlowRequests
    from kwiken.tail.diagnosis.slow_replicas import SlowReplica

MAX_PARTS_SHOWN: Final = 10
LINK_NOTE: Final = "between two services are network, connection and queue"


def excess_sentence(slow: SlowRequests) -> str:
    """Say how much longer slow requests take, and what takes that time first; without a full stop.

    Args:
        slow: slow requests, with the excess of each service and link.
    """
    verb = "takes" if slow.requests == 1 else "take"
    which = f"The slowest {slow.share:.0%}" if slow.during_s is None else f"Requests {_during(slow.during_s)}"
    who = f"{which} ({count(slow.requests, 'request')}) {verb}"
    first = slow.first
    if first is None:
        return f"{who} no longer than the medians of {_all(slow)} add up to"
    named = [f"{first.name} {ms(first.excess_ms)} ({first.share:.0%})"]
    named += [
        f"{part.name} {ms(part.excess_ms)} ({part.share:.0%})"
        for part in slow.leading_parts
        if part.name != first.name
    ]
    told = ", by link ".join([named[0], ", ".join(named[1:])]) if first.what == "links" else ", ".join(named)
    note = f"; {LINK_NOTE}" if any(part.link for part in slow.leading_parts) else ""
    return f"{who} {ms(slow.excess_ms)} more than the medians of {_all(slow)} add up to: {told}{note}"


def _during(during_s: tuple[float, float]) -> str:
    since, until = (datetime.fromtimestamp(at, UTC) for at in during_s)
    return f"from {since:%Y-%m-%d %H:%M:%S} to {until:%H:%M:%S} UTC"


def _all(slow: SlowRequests) -> str:
    links = " and links" if any(part.link for part in slow.services) else ""
    return f"all {slow.by}s{links}"


def replica_words(replica: SlowReplica) -> str:
    """Say how much slower a replica answers than the others; without a full stop.

    Args:
        replica: instance of a service, beside the others at the time.
    """
    others = f"{replica.others} other{'' if replica.others == 1 else 's'} of {replica.service}"
    if replica.tail:
        times = f"{replica.times:.2g} times as long as those of the {others}"
        return f"the slowest calls of replica {replica.name} take {times}"
    return f"replica {replica.name} answers {replica.times:.2g} times slower than the {others}"


def excess_table(slow: Sequence[SlowRequests]) -> Table:
    """Table with the excess of each service and link, largest first in the last of `slow`; then the sum.

    The rows are those with the largest excess in any of `slow`. Where a time was asked about, the table is
    about that time only, as its medians are those of all other requests.

    Args:
        slow: excess by service and link for each share of slow requests, one or more.
    """
    slow = [each for each in slow if each.during_s is not None] or slow
    order = [part.name for part in slow[-1].services]
    largest = sorted(order, key=lambda name: -max(_part(each, name).excess_ms for each in slow))
    shown = [name for name in order if name in largest[:MAX_PARTS_SHOWN]]
    rest = largest[MAX_PARTS_SHOWN:]
    rows = [_row(name, slow, [name], f"{_part(slow[-1], name).part_ms:.2f}") for name in shown]
    if rest:
        rows.append(_row(f"{len(rest)} others", slow, rest, ""))
    rows.append(_row("all", slow, order, f"{slow[-1].typical_ms:.2f}"))
    by = slow[-1].by
    tops = [f"slowest {each.share:.0%}" if each.during_s is None else "that time" for each in slow]
    columns = [column for top in tops for column in (f"{top}, ms more", "share")]
    numbers = " or ".join(dict.fromkeys(f"{each.requests:,}" for each in slow))
    which = "slow request" if numbers == "1" else f"{numbers} slow requests"
    linked = any(part.link for part in slow[-1].services)
    return Table(
        head=(f"{by} or link" if linked else by, "usual ms", *columns),
        body=tuple(rows),
        caption=f"usual ms: median over the requests that reach the {by}; in the last row, the sum of the "
        f"medians over all requests. ms more: mean over the {which}, less the median over all"
        f"{f'. {LINK_NOTE.capitalize()}' if linked else ''}",
        strong=slow[-1].leading,
    )


def _part(slow: SlowRequests, name: str) -> ServiceExcess:
    return next(part for part in slow.services if part.name == name)


def _row(label: str, slow: Sequence[SlowRequests], names: Sequence[str], usual: str) -> tuple[str, ...]:
    """Row of one service or link, or of several together."""
    row = [label, usual]
    for each in slow:
        parts = [_part(each, name) for name in names]
        excess, share = sum(part.excess_ms for part in parts), sum(part.share for part in parts)
        # Adding 0 after rounding takes the sign off a zero.
        row += [f"{round(excess, 2) + 0.0:.2f}", f"{round(share, 2) + 0.0:.0%}"]
    return tuple(row)
