"""Packing: tasks by what they use, with a dial between nodes and risk."""

from __future__ import annotations

from kwiken.allocator.packing.auto_dial import (
    ALLOWANCE as ALLOWANCE,
    BURNING as BURNING,
    AutoDial as AutoDial,
    LateCount as LateCount,
)
from kwiken.allocator.packing.dial import (
    MIDDLE as MIDDLE,
    PackedState as PackedState,
    dials_of as dials_of,
)
from kwiken.allocator.packing.drains import after as after, drain_steps as drain_steps
from kwiken.allocator.packing.goals import PackingGoal as PackingGoal, use_goal as use_goal
from kwiken.allocator.packing.later_moments import LaterUse as LaterUse
from kwiken.allocator.packing.margin import (
    chance_above as chance_above,
    levelled as levelled,
    sums_of as sums_of,
)
from kwiken.allocator.packing.repacking import (
    Repacking as Repacking,
    RepackSettings as RepackSettings,
    repack as repack,
)
from kwiken.allocator.packing.swaps import settled as settled
