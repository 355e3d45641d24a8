"""Pace of the demo: the rate that fits the machine, and whether the machine let the trial measure."""

from __future__ import annotations

from kwiken.cli.demo.pace.attempt import Attempt, NothingToldError, slower_rate
from kwiken.cli.demo.pace.health import Finding, Window, assess, check_outcome, check_unrest
from kwiken.cli.demo.pace.monitor import Monitor
from kwiken.cli.demo.pace.rate_search import (
    RATES,
    STEP_S,
    WANTED_REQUESTS,
    Pace,
    RateSearch,
    Step,
    seconds_for,
)

__all__ = [
    "RATES",
    "STEP_S",
    "WANTED_REQUESTS",
    "Attempt",
    "Finding",
    "Monitor",
    "NothingToldError",
    "Pace",
    "RateSearch",
    "Step",
    "Window",
    "assess",
    "check_outcome",
    "check_unrest",
    "seconds_for",
    "slower_rate",
]
