"""Simulated decision-support queries, and the event logs of their runs."""

from __future__ import annotations

from kwiken.lab.queries.event_lines import event_log as event_log
from kwiken.lab.queries.world import (
    SimulatedQuery as SimulatedQuery,
    draw_query as draw_query,
    run_query as run_query,
)
