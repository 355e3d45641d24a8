"""Trace-driven simulation of requests under a plan, and comparison of plans by common random numbers."""

from __future__ import annotations

from kwiken.tail.simulation.block_race import BlockRace as BlockRace
from kwiken.tail.simulation.common_random_numbers import (
    ROWS as ROWS,
    Choice as Choice,
    PairedSimulation as PairedSimulation,
    smooth_p99 as smooth_p99,
)
from kwiken.tail.simulation.expectation import (
    INTERVAL_LEVEL as INTERVAL_LEVEL,
    BlockBootstrap as BlockBootstrap,
    expect as expect,
    interval as interval,
)
from kwiken.tail.simulation.kept_budgets import kept_to as kept_to
from kwiken.tail.simulation.stage_replay import (
    StageReplay as StageReplay,
    cut_at_stop as cut_at_stop,
    utility_shares as utility_shares,
)
from kwiken.tail.simulation.trace_driven import (
    REQUESTS as REQUESTS,
    Simulation as Simulation,
    acting as acting,
    replay as replay,
    simulate as simulate,
)
