"""Callee of a stage as spans name it: HTTP method, host, port, and whether its calls write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.idempotence import Evidence, why_write
from kwiken.model.reads.names import http_method, names_grpc
from kwiken.model.service.stage import MAX_REPLICAS
from kwiken.otel.fit.calls.call_matrices import NS_PER_MS, Floats
from kwiken.otel.fit.foreign.instances import instances_of
from kwiken.otel.fit.foreign.reads_below import Below
from kwiken.otel.read.columns import NO_TEXT, Bools, Ints
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.service_calls import ServiceCalls

MAX_PORT = 65_535
MAX_PORT_DIGITS = 5
# A host's name or address, with a port behind it or not.
_ADDRESS = re.compile(
    r"(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?\Z"
)
# Addresses that say how one replica was reached, not how the service is.
_ONE_REPLICA = re.compile(r"localhost\Z|[0-9.]+\Z", re.IGNORECASE)
# A gRPC method's full name.
_RPC_METHOD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*/[A-Za-z_][A-Za-z0-9_]*\Z")
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


class Hedged(NamedTuple):
    """Calls of a stage of which the caller sent copies.

    Attributes:
        lost: (k,) whether the first attempt of a call lost.
        pairs_ms: (m, 2) latencies of calls and of their copies, milliseconds; None for none.
        pairs_cut: (m, 2) whether the call or the copy lost; None for none.
    """

    lost: Bools
    pairs_ms: Floats | None
    pairs_cut: Bools | None


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
        stated = self._forest.names.stated.get(op, {})
        methods = self._methods(op, operation, clients)
        method = methods[0] if len(methods) == 1 else None
        wrote, below = self._below.wrote[rows], self._below
        seen = Evidence(
            wrote=self._operation(wrote) or self._operation(below.wrote_by_op[op : op + 1]),
            read=bool(not below.doubtful[rows].any() and below.read[rows].mean() >= MIN_READ_SHARE),
        )
        host, port = self._address(stated, clients)
        match = SpanMatch(
            service=service,
            operation=operation,
            occurrence=turn + 1,
            method=method,
            path=_stated_path(stated),
            host=host,
            port=port,
        )
        reasons = [why_write(operation, each, seen) for each in methods or (None,)]
        return Callee(match, next(filter(None, reasons), ""))

    def hedged(self, rows: Ints) -> Hedged:
        """Find calls of which the caller sent copies; arguments as `of`."""
        return hedged_calls(self._calls, rows)

    def instances(self, rows: Ints) -> tuple[Ints, tuple[str, ...]] | None:
        """Instances that answered calls: (k,) index in the names, -1 where not known, and the names.

        None where none is known, or where the stages are spans: these run in the process that calls them.

        Args:
            rows: (k,) rows of the calls in the forest of calls between services.
        """
        if self._calls is None or not len(rows):
            return None
        codes = self._codes[rows]
        known = np.unique(codes[codes != NO_TEXT])
        if not 0 < len(known) <= MAX_REPLICAS:
            return None
        texts = self._forest.names.texts
        names = sorted(texts[code] for code in known.tolist())  # whatever the order of the files
        place = np.array([names.index(texts[code]) for code in known.tolist()])
        nearest = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(codes == NO_TEXT, -1, place[nearest]), tuple(names)

    @cached_property
    def _codes(self) -> Ints:
        assert self._calls is not None  # of spans, no instances are asked
        return instances_of(self._forest, self._calls)

    def _methods(self, op: int, operation: str, clients: Ints) -> list[str]:
        """HTTP methods of the calls of an operation: that in its name, and all that any span states."""
        names, spans = self._forest.names, self._forest.spans
        named = http_method(operation)
        if named is not None:
            return sorted({named} | names.methods.get(op, set()))
        found = set(names.methods.get(op, ()))
        for each in np.unique(np.r_[spans["op"][clients], spans["callee"][clients]]).tolist():
            if each >= 0:
                stated = http_method(names.operations[each][1])
                found |= {stated} if stated is not None else names.methods.get(each, set())
        if names_grpc(operation):
            return []
        return sorted(found - {"POST"} if names.stated.get(op, {}).get("rpc.method") else found)

    def _address(self, stated: Mapping[str, str], clients: Ints) -> tuple[str | None, int | None]:
        """Host and port that the servers' spans state, or else the clients', if these agree."""
        own = _stated_address(stated)
        if own[0] is not None or not len(clients):
            return own
        spans, known = self._forest.spans, self._forest.names.stated
        callees = np.unique(spans["callee"][clients]).tolist()
        found = {_stated_address(known.get(callee, {})) for callee in callees} - {(None, None)}
        return found.pop() if len(found) == 1 else own

    def _operation(self, ops: Ints) -> str:
        """Name of the most frequent of these operations; empty for none."""
        there = ops[ops >= 0]
        return self._forest.names.operations[int(np.bincount(there).argmax())][1] if len(there) else ""


def hedged_calls(calls: ServiceCalls | None, rows: Ints) -> Hedged:
    """Find calls of which the caller sent copies.

    Args:
        calls: requests and calls between services; None if the stages are spans.
        rows: (k,) rows of calls, in the forest of calls between services.
    """
    hedges = calls.hedges if calls is not None else None
    which = np.isin(hedges.winner, rows) if hedges is not None else np.zeros(0, np.bool_)
    if hedges is None or not which.any():
        return Hedged(np.zeros(len(rows), np.bool_), None, None)
    cut = hedges.pairs_cut[which]
    lost = np.isin(rows, hedges.winner[which][cut[:, 0]])
    return Hedged(lost, hedges.pairs_ns[which] / NS_PER_MS, cut)


def _stated_path(stated: Mapping[str, str]) -> str | None:
    """Route that the spans state, or that of a gRPC method; None if they state neither.

    The stable semantic conventions (1.45) state a method's full name as `rpc.method`. Those up to 1.37 state
    its service apart, as `rpc.service`.
    """
    route = stated.get("http.route", "")
    if route.startswith("/"):
        return route
    service, method = stated.get("rpc.service"), stated.get("rpc.method", "").removeprefix("/")
    if _RPC_METHOD.match(method):
        return f"/{method}"
    return f"/{service}/{method}" if service and method and "/" not in method else None


def _stated_address(stated: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Host and port that the spans state; None for what they do not, or what cannot be one."""
    text = stated.get("server.address") or stated.get("http.host") or stated.get("net.host.name") or ""
    found = _ADDRESS.match(text)
    if found is None or _ONE_REPLICA.match(found["host"]):
        return None, None
    port = found["port"] or stated.get("server.port") or stated.get("net.host.port") or ""
    fits = port.isascii() and port.isdigit() and len(port) <= MAX_PORT_DIGITS and 0 < int(port) <= MAX_PORT
    return found["host"], int(port) if fits else None
