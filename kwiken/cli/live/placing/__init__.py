"""Replicas of a local cluster on nodes: options of `kwiken up`, and the files behind them."""

from __future__ import annotations

from kwiken.cli.live.placing.claim import claimed_nodes
from kwiken.cli.live.placing.options import PlacementOptions, placement_options
from kwiken.cli.live.placing.placement_inputs import Placed

__all__ = ["Placed", "PlacementOptions", "claimed_nodes", "placement_options"]
