"""The two documents of a sizing, which belong together: a plan of reissues and a placement of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kwiken.allocator.capacity.supply import CORES_PER_REPLICA, Sizes
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import Verified
from kwiken.allocator.placement.placement_document import placed_nodes
from kwiken.model.nodes.placement import (
    VERSION as PLACEMENT_VERSION,
    PlacedReplica,
    PlacedWorkload,
    Placement,
    PlacingStatus,
)
from kwiken.model.plan.plan import (
    VERSION as PLAN_VERSION,
    Budgets,
    Costs,
    Expected,
    Intervals,
    Plan,
    StagePlan,
)
from kwiken.model.plan.rounding import rounded
from kwiken.tail.simulation.expectation import interval

SCHEDULER: Final = "size"  # name of the scheduler in placements of this package
CONFIDENCE: Final = 0.5  # the target is met by the estimate of p99 itself, not by a bound of it
FIELDS: Final = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms")


def plan_of(
    trials: StageTrials, sizes: Sizes, costs: Costs, *, before: Verified, after: Verified, created: str
) -> Plan:
    """Plan with the sizes' reissue policies, and the expectation of the queueing simulator.

    Args:
        sizes: size of each stage.
        costs: cost model and each stage's share of the work.
        before: the service at these sizes without copies.
        after: the service at these sizes with copies.
        created: RFC 3339 time to note.
    """
    profile = trials.model.profile
    policies = {name: trials.policy(stage, sizes[stage]) for stage, name in enumerate(trials.names)}
    budget = sum(
        costs.stages[name] * policy.fraction for name, policy in policies.items() if policy is not None
    )
    spent = sum(
        costs.stages[name] * after.copies[name] for name, policy in policies.items() if policy is not None
    )
    expected = Expected(
        before=before.ladder,
        after=after.ladder,
        spent=Budgets(reissue=spent),
        bounds=Intervals(before=_bounds(before), after=_bounds(after)),
    )
    return rounded(
        Plan(
            version=PLAN_VERSION,
            service=profile.service,
            created=created,
            profile=profile.digest,
            budgets=Budgets(reissue=budget),
            cost=costs,
            stages={
                stage.name: StagePlan(match=stage.match, reissue=policies[stage.name])
                for stage in profile.stages
                if not stage.own_time
            },
            expected=expected,
        )
    )


def _bounds(verified: Verified) -> dict[str, tuple[float, float]]:
    found = verified.percentiles()
    return {name: interval(found[:, place]) for place, name in enumerate(FIELDS)}


def placement_of(trials: StageTrials, sizes: Sizes, *, verified: Verified, target_ms: float) -> Placement:
    """Placement of the sizes' replicas on the cluster's nodes, in the form that `kwiken place` writes.

    A workload is a stage. Its performance is the calls a second that it gets, which is what it has to serve;
    the probability is the share of resampled blocks of simulated time in which the whole service meets the
    target, without a margin and for the recording as it is.

    Args:
        trials: trials of the stages, sized on a cluster that has room for them.
        sizes: size of each stage.
        verified: the service at these sizes with copies.
        target_ms: p99 to reach, milliseconds.
    """
    supply = trials.supply
    cluster, packed = supply.cluster, supply.packed(sizes)
    assert cluster is not None
    assert packed is not None
    chance = verified.probability(target_ms)
    workloads = []
    for stage, name in enumerate(trials.names):
        if not trials.sized(stage):
            continue
        calls_per_s = trials.rate_per_s * trials.model.stages[name].calls_per_request
        workloads.append(
            PlacedWorkload(
                name=name,
                service=trials.model.profile.service,
                stage=name,
                spread=supply.need(stage).spread.value,
                status=PlacingStatus.MET,
                required=calls_per_s,
                expected=calls_per_s,
                needed=calls_per_s,
                probability=chance,
                cost_per_hour=sizes[stage].replicas * float(supply.price[stage, sizes[stage].node_class]),
                replicas=_replicas(
                    [cluster.nodes[node].name for node in packed[stage]], supply.need(stage).memory_gb
                ),
            )
        )
    return Placement(
        version=PLACEMENT_VERSION,
        scheduler=SCHEDULER,
        confidence=CONFIDENCE,
        nodes=placed_nodes(cluster),
        workloads=workloads,
    )


def _replicas(nodes: Sequence[str], memory_gb: float) -> list[PlacedReplica]:
    return [PlacedReplica(node=node, cores=CORES_PER_REPLICA, memory_gb=memory_gb) for node in nodes]
