"""What spans say of the callee of a stage: HTTP method, host, port, and whether its calls write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kwiken.otel.read import Bools, Ints
from kwiken.otel.trace import Forest, ServiceCalls, levels
from kwiken.plan import SpanMatch
from kwiken.profile import Evidence, http_method, says_read, says_write, why_write

_NONE = -1
MIN_READ_SHARE = 0.5  # of the calls below which something reads, for "what was seen below only reads"


@dataclass(frozen=True, slots=True)
class Callee:
    """Callee of a stage.

    Attributes:
        match: service, operation and number of its spans, with the method and the address of its calls.
        writes: why its calls were taken for writes; empty where they were not.
    """

    match: SpanMatch
    writes: str


@dataclass(frozen=True, slots=True)
class Below:
    """Reads and writes among each span of a forest and all below it.

    Attributes:
        wrote: (n,) number of an operation that writes; -1 for none.
        read: (n,) number of an operation that reads; -1 for none.
    """

    wrote: Ints
    read: Ints


def seen_below(forest: Forest) -> Below:
    """Find reads and writes by the names of spans.

    Args:
        forest: forest of all spans.
    """
    names = [operation for _, operation in forest.names.operations]
    return Below(
        _highest_below(forest, _numbers(says_write(name) for name in names)),
        _highest_below(forest, _numbers(says_read(name) for name in names)),
    )


class Callees:
    """Facts on callees, from the spans of calls and from all spans below them.

    Args:
        forest: forest of all spans.
        below: what was seen below each span.
        calls: its requests and calls between services, if the stages are services; None if they are spans.
    """

    def __init__(self, forest: Forest, below: Below, calls: ServiceCalls | None) -> None:
        self._forest = forest
        self._below = below
        self._calls = calls

    def of(self, op: int, turn: int, rows: Ints) -> Callee:
        """Callee of a stage.

        Args:
            op: number of the operation of the stage's calls.
            turn: number of the stage among those of this operation, from 0.
            rows: (k,) rows of its calls, in the forest of calls between services if the stages are services.
        """
        service, operation = self._forest.names.operations[op]
        clients = np.empty(0, np.int64)
        if self._calls is not None:
            clients = self._calls.clients[rows]
            clients, rows = clients[clients >= 0], self._calls.rows[rows]
        method = http_method(operation) or self._method(clients)
        wrote, read = self._below.wrote[rows], self._below.read[rows]
        seen = Evidence(
            wrote=self._operation(wrote),
            read=bool((wrote < 0).all() and (read >= 0).mean() >= MIN_READ_SHARE),
        )
        match = SpanMatch(service=service, operation=operation, occurrence=turn + 1, method=method)
        return Callee(match, why_write(operation, method, seen))

    def _method(self, clients: Ints) -> str | None:
        """HTTP method in the names of the clients' spans; None if they state none, or several."""
        ops = np.unique(self._forest.spans["op"][clients]).tolist()
        found = {http_method(self._forest.names.operations[op][1]) for op in ops}
        return found.pop() if len(found) == 1 else None

    def _operation(self, ops: Ints) -> str:
        """Name of the most frequent of these operations; empty for none."""
        there = ops[ops >= 0]
        return self._forest.names.operations[int(np.bincount(there).argmax())][1] if len(there) else ""


def _numbers(which: Iterable[bool]) -> Ints:
    """(operations,): number of each operation that is meant; -1 for the others."""
    meant: Bools = np.fromiter(which, np.bool_)
    return np.where(meant, np.arange(len(meant)), _NONE)


def _highest_below(forest: Forest, operations: Ints) -> Ints:
    """(n,): highest number among a span and all below it; -1 for none.

    Args:
        forest: forest of all spans.
        operations: (operations,) number of each operation that counts; -1 for the others.
    """
    found: Ints = operations[forest.spans["op"]] if len(forest) else np.empty(0, np.int64)
    for rows in reversed(levels(forest.depth)[1:]):
        np.maximum.at(found, forest.parent[rows], found[rows])
    return found
