"""Replicas of a local cluster on nodes: options of `kwiken up`, and the files behind them."""

from __future__ import annotations

from kwiken.cli.live.placing.options import (
    PlacementOptions as PlacementOptions,
    placed_on as placed_on,
    placement_options as placement_options,
)
from kwiken.cli.live.placing.placement_inputs import Placed as Placed
from kwiken.cli.live.placing.run_on_nodes import (
    keep_targets as keep_targets,
    log_event as log_event,
    on_nodes as on_nodes,
)
