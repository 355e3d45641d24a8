"""Traffic in `kwiken place`: places that bring callers and callees together, and how far calls go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kwiken.apps.console.output import note, print_table, say
from kwiken.cli.data.traffic.reading import load_traffic

if TYPE_CHECKING:
    from kwiken.allocator.distance.crossing import CrossingCalls
    from kwiken.allocator.distance.demand import TrafficDemand
    from kwiken.allocator.placement.order import PlacedOrNot, Scheduler
    from kwiken.allocator.workloads.workload import Workload
    from kwiken.model.nodes.nodes import Cluster


@dataclass(frozen=True)
class Distances:
    """Distances of the traffic of two placements: by cost alone, and with the distance in view.

    Attributes:
        without: placement by the scheduler alone.
        found: placement of the same scheduler with the distance in view.
    """

    without: CrossingCalls
    found: CrossingCalls
    unit: str
    cost_without: float
    cost: float

    def summary(self) -> dict[str, Any]:
        """Both placements, for `--json`."""
        return {
            "unit": self.unit,
            "without": asdict(self.without) | {"cost_per_hour": self.cost_without},
            "with": asdict(self.found) | {"cost_per_hour": self.cost},
            "fewer_between_zones": _fewer(self.without.between_zones, self.found.between_zones),
        }


def load_demand(path: str, wanted: Sequence[Workload], cluster: Cluster) -> TrafficDemand:
    """Traffic among the workloads, from a model; what has no place is noted.

    Raises:
        InputError: names the file: no traffic model, or none between two of the workloads.
    """
    model = load_traffic(path)
    from kwiken.allocator.distance.demand import demand_of

    demand = demand_of(model, wanted, where=path)
    if demand.unmatched > 0:
        note(
            f"note: {demand.unmatched:.1%} of the traffic has an end at a service that is no workload here, "
            "and counts for nothing"
        )
    if not any(node.zone for node in cluster.nodes):
        note("note: no node has a zone, so that each node counts as a zone of its own")
    return demand


def nearby(scheduler: Scheduler, demand: TrafficDemand) -> Scheduler:
    """The scheduler with the distance of the traffic in view."""
    from kwiken.allocator.distance.improvement import NearbyScheduler

    return NearbyScheduler(scheduler, demand)


def distances(
    cluster: Cluster,
    demand: TrafficDemand,
    without: Sequence[PlacedOrNot],
    found: Sequence[PlacedOrNot],
) -> Distances:
    """Measure how far the traffic of two placements goes.

    Args:
        without: outcomes of the scheduler alone.
        found: outcomes with the distance in view.
    """
    from kwiken.allocator.distance.crossing import Crossings

    told = []
    for outcomes in (without, found):
        crossings = Crossings(cluster, demand)
        crossings.take([one.sizing for one in outcomes])
        told.append(crossings.told())
    costs = [sum(one.sizing.cost for one in outcomes) for outcomes in (without, found)]
    return Distances(told[0], told[1], demand.unit.value, *costs)


def show_distances(both: Distances, *, explain: bool, to_stderr: bool) -> None:
    """Print how far calls go with and without the distance in view, and which pairs cross zones still."""
    rows = [
        (
            name,
            *(f"{value:.4g}" for value in (one.per_s, one.between_nodes, one.between_zones, one.distance)),
            f"{cost:.4g}",
        )
        for name, one, cost in (
            ("by cost alone", both.without, both.cost_without),
            ("with --traffic", both.found, both.cost),
        )
    ]
    head = ("placement", f"{both.unit}/s", "between nodes", "between zones", "x distance", "cost/h")
    print_table("how far the traffic between workloads goes", head, rows, to_stderr=to_stderr)
    if explain and both.found.pairs:
        pairs = [
            (pair.one, pair.other, f"{pair.per_s:.4g}", f"{pair.share:.1%}") for pair in both.found.pairs
        ]
        columns = ("workload", "workload", f"{both.unit}/s between zones", "of theirs")
        print_table("what crosses zones still", columns, pairs, to_stderr=to_stderr)
    if not to_stderr:
        fewer = _fewer(both.without.between_zones, both.found.between_zones)
        say(f"{fewer:.1%} fewer {both.unit} cross zones")


def _fewer(before: float, after: float) -> float:
    return 1.0 - after / before if before > 0 else 0.0
