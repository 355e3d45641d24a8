"""Consolidation of data sets on few nodes: limits, interference, forecast, packing, moves, energy."""

from __future__ import annotations

from kwiken.storage.consolidation.day import (
    ClusterDay as ClusterDay,
    DayPolicy as DayPolicy,
    play_day as play_day,
)
from kwiken.storage.consolidation.document import (
    DataDocument as DataDocument,
    datasets_from_toml as datasets_from_toml,
    demand_from_text as demand_from_text,
    history_from_csv as history_from_csv,
    layout_json as layout_json,
    nodes_of as nodes_of,
    objects_of as objects_of,
    place_from_json as place_from_json,
)
from kwiken.storage.consolidation.energy import NodePower as NodePower
from kwiken.storage.consolidation.exact import (
    MAX_EXACT as MAX_EXACT,
    fewest_nodes as fewest_nodes,
    least_nodes as least_nodes,
)
from kwiken.storage.consolidation.forecast import DemandForecaster as DemandForecaster, predict as predict
from kwiken.storage.consolidation.interference import (
    AccessMix as AccessMix,
    packing_order as packing_order,
    pair_losses as pair_losses,
    pair_scores as pair_scores,
    pairs_served as pairs_served,
)
from kwiken.storage.consolidation.limits import (
    published_latency_ms as published_latency_ms,
    published_limit as published_limit,
)
from kwiken.storage.consolidation.moves import (
    MovePlan as MovePlan,
    MoveRules as MoveRules,
    update_placement as update_placement,
)
from kwiken.storage.consolidation.packing import (
    DiskNodes as DiskNodes,
    NodeLoads as NodeLoads,
    PackObjects as PackObjects,
    PackRules as PackRules,
    consolidate as consolidate,
    placing_order as placing_order,
)
from kwiken.storage.consolidation.search import searched as searched
