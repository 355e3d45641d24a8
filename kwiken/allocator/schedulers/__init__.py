"""Schedulers behind one protocol: Quasar's and Paragon's, baselines, and an exact one for small clusters."""

from __future__ import annotations

from kwiken.allocator.schedulers.baselines import reservation as reservation
from kwiken.allocator.schedulers.default_scheduler import choose_by_price as choose_by_price
from kwiken.allocator.schedulers.exact import Optimum as Optimum, solve as solve
from kwiken.allocator.schedulers.names import SCHEDULERS as SCHEDULERS, scheduler as scheduler
from kwiken.allocator.schedulers.paragon import (
    ParagonScheduler as ParagonScheduler,
    colocation_quality as colocation_quality,
)
from kwiken.allocator.schedulers.sampled import (
    DEFAULT_GUARANTEE as DEFAULT_GUARANTEE,
    SampledScheduler as SampledScheduler,
)
