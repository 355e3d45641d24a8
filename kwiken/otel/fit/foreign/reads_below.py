"""Reads and writes below each span: what the calls of a stage do further down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.model.plan.plan import SAFE_METHODS
from kwiken.model.reads.names import (
    asks_graphql,
    http_method,
    names_grpc,
    reads_a_store,
    says_read,
    says_write,
    states_no_work,
)
from kwiken.otel.conventions.routes import is_generic
from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import Forest, levels

_NONE: Final = -1
_KINDS: Final = c.SERVER | c.CLIENT | c.PRODUCER | c.CONSUMER
MIN_SEEN_SHARE: Final = 0.5  # of the calls of an operation, below which reads are seen, for those without


@dataclass(frozen=True, slots=True)
class Below:
    """Reads and writes among each span of a forest and all below it.

    Attributes:
        wrote: (n,) number of an operation that writes; -1 for none.
        read: (n,) whether something reads, and below no write of the span itself stands.
        doubtful: (n,) whether there is a call of which nothing says that it reads.
        wrote_by_op: (operations,) number of an operation that writes in or below any span of each; -1 for
            none.
    """

    wrote: Ints
    read: Bools
    doubtful: Bools
    wrote_by_op: Ints


def seen_below(forest: Forest) -> Below:
    """Find reads and writes by the names of spans; a span that sends a message is a write.

    Of a client's span, what it asks its callee for is the name: the verb of a query is in its attributes.
    A span reads, for those above, in three cases:

    1. It is a call (it states the kind of a client or a server, or its parent is of another service), its
       name says that it reads, and it is no POST.
    2. It is a query in SQL or a GET; or its service states no kinds, and its name has a store in it. Names of
       functions inside a process (`getUser`, `checkRights`) say nothing of what else is done.
    3. A call reads below it, and none is doubtful.

    Any other call is doubtful, unless it only connects to a store. Where below most calls of its operation
    something reads, it lacks spans that the others have, and is not doubtful.

    Args:
        forest: forest of all spans.
    """
    operations = [operation for _, operation in forest.names.operations]
    callee = forest.spans["callee"]
    op = np.where(callee >= 0, callee, forest.spans["op"]).astype(np.int64)
    flags = forest.spans["flags"]
    sends, takes = flags & c.PRODUCER != 0, flags & c.CONSUMER != 0
    wrote = np.where(sends, op, _numbers(says_write(name) for name in operations)[op])
    reads = _reads(forest, operations, op) & ~sends & ~takes & (wrote < 0)
    idle = _meant(states_no_work(name) for name in operations)[op]
    doubts = _calls(forest, operations) & ~reads & ~idle & ~takes
    wrote = _highest_below(forest, wrote)
    read, doubtful = _judged(forest, reads, doubts)
    if doubtful.any():
        share = np.bincount(op, read & ~doubtful, len(operations)) / np.maximum(
            np.bincount(op, minlength=len(operations)), 1
        )
        generic = _meant(is_generic(name) for name in operations)
        lacking = ((share >= MIN_SEEN_SHARE) & ~generic)[op]
        if (lacking & doubtful).any():
            read, doubtful = _judged(forest, reads | (lacking & doubtful & ~read), doubts & ~lacking)
    by_op = np.full(len(operations), _NONE, np.int64)
    np.maximum.at(by_op, op, wrote)
    return Below(wrote, read, doubtful, by_op)


def _reads(forest: Forest, operations: list[str], op: Ints) -> Bools:
    """(n,): whether a span by itself says that it reads, as `seen_below` counts it."""
    service = forest.service
    kind = forest.spans["flags"] & _KINDS != 0
    states_kinds = np.zeros(int(service.max(initial=-1)) + 1, np.bool_)
    states_kinds[service[kind]] = True
    leaf = np.ones(len(forest), np.bool_)
    leaf[forest.parent[forest.parent >= 0]] = False
    methods = forest.names.methods
    posted = _meant(
        bool(methods.get(i, set()) - SAFE_METHODS) and not (names_grpc(n) or asks_graphql(n))
        for i, n in enumerate(operations)
    )
    named = (_meant(says_read(name) for name in operations) & ~posted)[op]
    query = _meant(_is_query(name) for name in operations)[op]
    stored = _meant(reads_a_store(name) for name in operations)[op]
    method = (_meant(http_method(name) in SAFE_METHODS for name in operations) & ~posted)[op]
    found: Bools = (
        (named & (kind | _crosses(forest, service)))
        | query
        | (method & (kind | leaf | ~states_kinds[service]))
        | (stored & leaf & ~states_kinds[service])
    )
    return found


def _calls(forest: Forest, operations: list[str]) -> Bools:
    """(n,): whether a span is a side of a call, by its kind, its service or its name."""
    service = forest.service
    kind = forest.spans["flags"] & _KINDS != 0
    posts = _meant(http_method(name) is not None for name in operations)[forest.spans["op"]]
    found: Bools = kind | _crosses(forest, service) | posts
    return found


def _crosses(forest: Forest, service: Ints) -> Bools:
    """(n,): whether the parent of a span is of another service."""
    found = np.zeros(len(forest), np.bool_)
    rows = np.flatnonzero(forest.parent >= 0)
    found[rows] = service[rows] != service[forest.parent[rows]]
    return found


def _judged(forest: Forest, reads: Bools, doubts: Bools) -> tuple[Bools, Bools]:
    """(n,) whether a span reads or something below it does, and (n,) whether it is or holds a doubtful call.

    Args:
        reads: (n,) whether a span by itself says that it reads, which settles what is below it too.
        doubts: (n,) whether a span is a call that does not say so by itself.
    """
    below_reads, below_doubts = np.zeros(len(forest), np.bool_), np.zeros(len(forest), np.bool_)
    read, doubtful = reads.copy(), np.zeros(len(forest), np.bool_)
    for rows in reversed(levels(forest.depth)):
        read[rows] |= below_reads[rows]
        doubtful[rows] = ~reads[rows] & (below_doubts[rows] | (doubts[rows] & ~below_reads[rows]))
        inner = rows[forest.parent[rows] >= 0]
        above = forest.parent[inner]
        below_reads[above[read[inner]]] = True
        below_doubts[above[doubtful[inner]]] = True
    return read, doubtful


def _is_query(name: str) -> bool:
    return name.split(" ", maxsplit=1)[0].isupper() and says_read(name)


def _meant(which: Iterable[bool]) -> Bools:
    return np.fromiter(which, np.bool_)


def _numbers(which: Iterable[bool]) -> Ints:
    """(operations,): number of each operation that is meant; -1 for the others."""
    meant = _meant(which)
    return np.where(meant, np.arange(len(meant)), _NONE)


def _highest_below(forest: Forest, found: Ints) -> Ints:
    """(n,): highest number among a span and all below it; -1 for none.

    Args:
        forest: forest of all spans.
        found: (n,) number of each span that counts; -1 for the others. It is changed in place.
    """
    for rows in reversed(levels(forest.depth)[1:]):
        np.maximum.at(found, forest.parent[rows], found[rows])
    return found
