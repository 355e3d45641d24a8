"""Trace-driven simulation of requests under a plan, and comparison of plans by common random numbers."""

from __future__ import annotations

from kwiken.simulation.block_race import BlockRace
from kwiken.simulation.bootstrap import INTERVAL_LEVEL, BlockBootstrap, interval
from kwiken.simulation.common_random_numbers import (
    RISKS,
    ROWS,
    TAIL,
    Choice,
    PairedSimulation,
    Risk,
    Rows,
    smooth_p99,
)
from kwiken.simulation.expectation import expect
from kwiken.simulation.kept_budgets import kept_to
from kwiken.simulation.stage_replay import StageReplay, cut_at_stop, utility_shares
from kwiken.simulation.trace_driven import REQUESTS, Simulation, acting, replay, simulate

__all__ = [
    "INTERVAL_LEVEL",
    "REQUESTS",
    "RISKS",
    "ROWS",
    "TAIL",
    "BlockBootstrap",
    "BlockRace",
    "Choice",
    "PairedSimulation",
    "Risk",
    "Rows",
    "Simulation",
    "StageReplay",
    "acting",
    "cut_at_stop",
    "expect",
    "interval",
    "kept_to",
    "replay",
    "simulate",
    "smooth_p99",
    "utility_shares",
]
