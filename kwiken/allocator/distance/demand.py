"""Demand of traffic: how much workloads send one another, from a traffic model by the names of services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.workload import Workload
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.traffic.document import TrafficModel
from kwiken.traffic.flows import TrafficUnit
from kwiken.traffic.maps import MapLevel


@dataclass(frozen=True, eq=False)
class TrafficDemand:
    """Traffic among workloads.

    Attributes:
        per_s: (w, w) calls or bytes a second from each workload to each other one.
        unmatched: share of the model's traffic with an end at a service that no workload is, 0 to 1.
    """

    names: tuple[str, ...]
    per_s: Floats
    unit: TrafficUnit
    unmatched: float

    @property
    def both_ways(self) -> Floats:
        """(w, w) calls or bytes a second between each two workloads, in either direction."""
        return np.asarray(self.per_s + self.per_s.T)


def demand_of(model: TrafficModel, workloads: Sequence[Workload], *, where: str) -> TrafficDemand:
    """Traffic among workloads by a model, in the mean over all time that had traffic.

    A service of the model is the workload of its name, or else the only one whose stage has its name. Traffic
    with other ends is left out.

    Args:
        where: source of the model to name in errors, such as a file's path.

    Raises:
        InputError: no traffic of the model is between two of the workloads.
    """
    number = {one.name: place for place, one in enumerate(workloads)}
    stages = [one.stage for one in workloads if one.stage]
    for place, one in enumerate(workloads):
        if one.stage and stages.count(one.stage) == 1:
            number.setdefault(one.stage, place)
    found = model.traffic_map(MapLevel.SERVICE)
    at = np.array([number.get(name, -1) for name in found.names], np.int64)
    rows, columns = at[found.source], at[found.target]
    known = (rows >= 0) & (columns >= 0) & (rows != columns)
    if not known.any() or not found.amount[known].any():
        services = ", ".join(sorted(found.names)[:5])
        raise InputError(
            f"has no traffic between two of the workloads; its services are {services}", where=where
        )
    per_s = np.zeros((len(workloads), len(workloads)))
    np.add.at(per_s, (rows[known], columns[known]), found.amount[known])
    left_out = 1.0 - float(found.amount[known].sum()) / float(found.amount.sum())
    return TrafficDemand(tuple(one.name for one in workloads), per_s, model.unit, max(left_out, 0.0))
