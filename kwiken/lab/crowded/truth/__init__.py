"""Truth of the crowded world: rules that hold under every scheduler. No module here knows a scheduler."""

from __future__ import annotations

from kwiken.lab.crowded.truth.draw import (
    CrowdedWorld as CrowdedWorld,
    drawn_world as drawn_world,
)
from kwiken.lab.crowded.truth.law import left as left, processor_left as processor_left
from kwiken.lab.crowded.truth.nodes import NOWHERE as NOWHERE, CrowdedNodes as CrowdedNodes
from kwiken.lab.crowded.truth.programs import (
    RESOURCES as RESOURCES,
    STEEPNESS as STEEPNESS,
    Programs as Programs,
)
from kwiken.lab.crowded.truth.rules import (
    ABLATIONS as ABLATIONS,
    BASE_OVER_PEAK as BASE_OVER_PEAK,
    BUSY_CONCENTRATION as BUSY_CONCENTRATION,
    KILL_WAIT_S as KILL_WAIT_S,
    LEVEL_S as LEVEL_S,
    LOADS as LOADS,
    MAX_KILLS as MAX_KILLS,
    MOVE_S as MOVE_S,
    MOVE_S_PER_GB as MOVE_S_PER_GB,
    NODES_OF_SET as NODES_OF_SET,
    NODES_OF_TYPE as NODES_OF_TYPE,
    SAMPLE_S as SAMPLE_S,
    SOLD_MEMORY as SOLD_MEMORY,
    START_S as START_S,
    START_S_PER_GB as START_S_PER_GB,
    Law as Law,
    Rules as Rules,
)
