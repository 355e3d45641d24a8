"""Sizing and placing: how many replicas of a workload, of which size, on which of several unequal nodes."""

from __future__ import annotations

from kwiken.allocator.placement.anti_affinity import AntiAffinity as AntiAffinity
from kwiken.allocator.placement.explanations import (
    PlacementExplanation as PlacementExplanation,
    explain_placement as explain_placement,
)
from kwiken.allocator.placement.headroom import SOURCE_CAUTION as SOURCE_CAUTION, Caution as Caution
from kwiken.allocator.placement.node_ledger import (
    ROUNDING as ROUNDING,
    Draw as Draw,
    DrawKind as DrawKind,
    NodeLedger as NodeLedger,
)
from kwiken.allocator.placement.order import (
    MIN_SHARE_ACCEPTED as MIN_SHARE_ACCEPTED,
    AddedNodes as AddedNodes,
    Newcomer as Newcomer,
    PlacedOrNot as PlacedOrNot,
    PlacingStatus as PlacingStatus,
    Scheduler as Scheduler,
    admit_all as admit_all,
    nodes_to_add as nodes_to_add,
)
from kwiken.allocator.placement.own_nodes_trial import OwnNodesTrial as OwnNodesTrial
from kwiken.allocator.placement.placement_document import (
    PLACED_GATE as PLACED_GATE,
    VERSION as VERSION,
    PlacedReplica as PlacedReplica,
    PlacedWorkload as PlacedWorkload,
    Placement as Placement,
    document as document,
    placed_nodes as placed_nodes,
    resume as resume,
    total_cost as total_cost,
)
from kwiken.allocator.placement.quality import (
    Contention as Contention,
    contention_loss as contention_loss,
    contention_on as contention_on,
    node_scores as node_scores,
)
from kwiken.allocator.placement.request import (
    PlacementRequest as PlacementRequest,
    request_for as request_for,
)
from kwiken.allocator.placement.shared_trial import SharedNodesTrial as SharedNodesTrial
from kwiken.allocator.placement.sizing import (
    Forecast as Forecast,
    SizedReplica as SizedReplica,
    Sizing as Sizing,
)
from kwiken.allocator.placement.walks import (
    Rank as Rank,
    by_cost as by_cost,
    by_quality as by_quality,
    offers_by_size as offers_by_size,
    take as take,
    trim as trim,
    walk as walk,
)
from kwiken.model.nodes import (
    Cluster as Cluster,
    Node as Node,
    NodeClass as NodeClass,
    nodes_from_toml as nodes_from_toml,
)
