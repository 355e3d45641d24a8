"""Simulated cloud: jobs on reserved and rented nodes, outside load, spin-up and what it costs (HCloud)."""

from __future__ import annotations

from kwiken.lab.cloud.load_shapes import drawn_load as drawn_load
from kwiken.lab.cloud.scenarios import (
    CLOUD_SCENARIOS as CLOUD_SCENARIOS,
    draw_jobs as draw_jobs,
)
from kwiken.lab.cloud.settings import (
    CloudSettings as CloudSettings,
    CloudStrategy as CloudStrategy,
    Keeping as Keeping,
)
from kwiken.lab.cloud.simulation import run_cloud as run_cloud
from kwiken.lab.cloud.weather import (
    HOST_SPREAD as HOST_SPREAD,
    RESOURCES as RESOURCES,
    SIZES as SIZES,
    batch_slowdown as batch_slowdown,
    excess as excess,
    experienced as experienced,
    latency_factor as latency_factor,
    outside_load as outside_load,
)
