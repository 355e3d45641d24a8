"""Ends of unfinished spans, from the finished spans around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwiken.otel.read import Ints, Rows, columns as c


def finish_spans(spans: Rows, parent: Ints, end: Ints, service: Ints, levels: Sequence[Ints]) -> None:
    """Give unfinished spans an end where other spans tell it; the others have no duration.

    A call whose server's span has no end is whole at its client, and the other way round. There are three
    cases:

    1. The parent is finished and of another service: the span is the server's side of the call, and lasts to
       the end of the client's.
    2. Spans below are finished, and the span has a parent: it lasts until the last of them ends.
    3. Otherwise the end is unknown, as with a request: the span counts as one that ends before it starts.

    Args:
        spans: (n,) rows of `SPAN`; those whose end stays unknown get the flag `NEGATIVE`.
        parent: (n,) row of each span's parent, negative for none.
        end: (n,) ends, nanoseconds since 1970; changed in place.
        service: (n,) number of each span's service.
        levels: rows grouped by depth, from the top.
    """
    still = spans["flags"] & c.UNFINISHED != 0
    if not still.any():
        return
    start = spans["start"]
    for rows in levels[1:]:
        above = parent[rows]
        served = rows[
            still[rows] & ~still[above] & (service[rows] != service[above]) & (end[above] > start[rows])
        ]
        end[served] = end[parent[served]]
        still[served] = False
    latest = start.astype(np.int64)
    for rows in reversed(levels[1:]):
        done = rows[still[rows] & (latest[rows] > start[rows])]
        end[done] = latest[done]
        still[done] = False
        known = rows[~still[rows]]
        np.maximum.at(latest, parent[known], end[known])
    spans["flags"][still] |= c.NEGATIVE
