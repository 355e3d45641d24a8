"""Sizing and placing: how many replicas of a workload, of which size, on which of several unequal nodes."""

from __future__ import annotations

from kwiken.placement.admission import MIN_SHARE_ACCEPTED, Admission, Scheduler, Status, admit_all
from kwiken.placement.anti_affinity import AntiAffinity
from kwiken.placement.explanations import Explanation, explain_placement
from kwiken.placement.headroom import SOURCE_CAUTION, Caution
from kwiken.placement.manifests import MANIFESTS
from kwiken.placement.node_ledger import ROUNDING, Draw, DrawKind, NodeLedger
from kwiken.placement.nodes import Cluster, Node, NodeClass, nodes_from_toml
from kwiken.placement.placement import (
    VERSION,
    PlacedReplica,
    PlacedWorkload,
    Placement,
    document,
    placed_nodes,
    resume,
    total_cost,
)
from kwiken.placement.quality import Contention, contention_loss, contention_on, node_scores
from kwiken.placement.request import Request, request_for
from kwiken.placement.sizing import Forecast, Replica, Sizing, Trial
from kwiken.placement.walks import Rank, by_cost, by_quality, offers_by_size, take, trim, walk

__all__ = [
    "MANIFESTS",
    "MIN_SHARE_ACCEPTED",
    "ROUNDING",
    "SOURCE_CAUTION",
    "VERSION",
    "Admission",
    "AntiAffinity",
    "Caution",
    "Cluster",
    "Contention",
    "Draw",
    "DrawKind",
    "Explanation",
    "Forecast",
    "Node",
    "NodeClass",
    "NodeLedger",
    "PlacedReplica",
    "PlacedWorkload",
    "Placement",
    "Rank",
    "Replica",
    "Request",
    "Scheduler",
    "Sizing",
    "Status",
    "Trial",
    "admit_all",
    "by_cost",
    "by_quality",
    "contention_loss",
    "contention_on",
    "document",
    "explain_placement",
    "node_scores",
    "nodes_from_toml",
    "offers_by_size",
    "placed_nodes",
    "request_for",
    "resume",
    "take",
    "total_cost",
    "trim",
    "walk",
]
