"""Simulated racks: batch jobs with slots and flows in one event loop, and schedulers behind one protocol."""

from __future__ import annotations

from kwiken.lab.racks.flows import (
    max_min_rates as max_min_rates,
    smallest_bottleneck_rates as smallest_bottleneck_rates,
)
from kwiken.lab.racks.schedulers import (
    JobScheduler as JobScheduler,
    Planned as Planned,
    ShuffleWatcher as ShuffleWatcher,
    YarnLike as YarnLike,
)
from kwiken.lab.racks.simulation import (
    RacksOutcome as RacksOutcome,
    simulate_racks as simulate_racks,
)
