"""Pace of the demo: the rate that fits the machine, and whether the machine let the trial measure."""

from __future__ import annotations

from kwiken.apps.demo.pace.attempt import (
    InconclusiveRunError as InconclusiveRunError,
    RateTrial as RateTrial,
    slower_rate as slower_rate,
)
from kwiken.apps.demo.pace.health import (
    Finding as Finding,
    HealthWindow as HealthWindow,
    assess as assess,
    check_outcome as check_outcome,
    check_unrest as check_unrest,
)
from kwiken.apps.demo.pace.monitor import Monitor as Monitor
from kwiken.apps.demo.pace.rate_search import (
    RATES as RATES,
    STEP_S as STEP_S,
    WANTED_REQUESTS as WANTED_REQUESTS,
    Pace as Pace,
    RateSearch as RateSearch,
    RateStep as RateStep,
    seconds_for as seconds_for,
)
