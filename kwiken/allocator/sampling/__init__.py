"""Sampling: sizes of samples with a guarantee, agents that place by them on one shared state."""

from __future__ import annotations

from kwiken.allocator.sampling.agent import (
    PlacingAgent as PlacingAgent,
    SampledKind as SampledKind,
    qualities as qualities,
    sampled_kind as sampled_kind,
)
from kwiken.allocator.sampling.arrivals import (
    ArrivalPlacer as ArrivalPlacer,
    PlacedArrival as PlacedArrival,
    rank_among_all as rank_among_all,
    restore as restore,
)
from kwiken.allocator.sampling.early_stop import EarlyStop as EarlyStop
from kwiken.allocator.sampling.sample_size import (
    Guarantee as Guarantee,
    batch_failure as batch_failure,
    draws_for as draws_for,
    draws_from as draws_from,
    draws_when_busy as draws_when_busy,
    failure_from as failure_from,
    failure_of as failure_of,
    guarantee_from_text as guarantee_from_text,
    kubernetes_scored as kubernetes_scored,
    kubernetes_share as kubernetes_share,
)
from kwiken.allocator.sampling.shared_nodes import NodeProposal as NodeProposal, SharedNodes as SharedNodes
from kwiken.allocator.sampling.waits import ReleaseHistory as ReleaseHistory
