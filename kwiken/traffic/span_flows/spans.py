"""Calls between instances, from traces: each call of another service is one transfer."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.otel.read.columns import NO_TEXT, Names
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.service_calls import find_service_calls
from kwiken.traffic.flows import Flows, TrafficEndpoint, TrafficUnit

NANOSECONDS = 1e9  # a second in the unit of spans


def flows_of_forest(forest: Forest) -> Flows:
    """Calls between services of all traces, with the instance that each side states.

    A call that a head sampler kept with a stated probability counts as often as it stands for. A callee
    without spans of its own is one endpoint with the name of its service.

    Args:
        forest: cleaned trees of spans.

    Raises:
        InputError: no span calls another service.
    """
    calls = find_service_calls(forest, np.empty(0, np.int64))
    tree = calls.forest
    rows = np.flatnonzero(tree.parent >= 0)
    if not len(rows):
        raise InputError("no span calls another service, so there is no traffic to learn")
    served = calls.clients != calls.rows  # a callee that has no span of its own states no instance
    ends = _Ends(tree.names)
    codes = ends.codes(tree.spans["op"], np.where(served, tree.spans["instance"], NO_TEXT))
    source, target = codes[tree.parent[rows]], codes[rows]
    return Flows(
        tuple(ends.endpoints),
        TrafficUnit.CALLS,
        forest.spans["start"][calls.rows[rows]] / NANOSECONDS,
        source,
        target,
        _weights(tree, rows),
    )


def _weights(tree: Forest, rows: Ints) -> Floats:
    """(n,) number of calls that each call stands for."""
    share = tree.spans["share"][rows].astype(np.float64)
    return np.asarray(np.where(np.isfinite(share) & (share > 0), 1.0 / np.where(share > 0, share, 1.0), 1.0))


class _Ends:
    """Endpoints by service and instance, in order of first use."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.endpoints: list[TrafficEndpoint] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def codes(self, op: Ints, instance: Ints) -> Ints:
        """(n,) index of the endpoint of each span.

        Args:
            op: (n,) number of each span's operation.
            instance: (n,) number of the text that names its instance; `NO_TEXT` for none.
        """
        pairs, at = np.unique(np.stack([op, instance]), axis=1, return_inverse=True)
        found = [self._code(*pair) for pair in pairs.T.tolist()]
        return np.array(found, np.int64)[np.asarray(at).ravel()]

    def _code(self, op: int, instance: int) -> int:
        service = self._names.operations[op][0]
        if instance == NO_TEXT:
            name, (node, zone) = service, ("", "")
        else:
            name = self._names.texts[instance]
            node, zone = self._names.homes.get(instance, ("", ""))
        number = self._numbers.setdefault((service, name), len(self.endpoints))
        if number == len(self.endpoints):
            self.endpoints.append(TrafficEndpoint(name=name, service=service, node=node, zone=zone))
        return number
