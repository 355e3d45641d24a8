"""Schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.allocator.placement.order import Scheduler
from kwiken.allocator.schedulers.baselines import LeastLoadedScheduler, reservation_scheduler
from kwiken.allocator.schedulers.default_scheduler import ThriftyScheduler
from kwiken.allocator.schedulers.sampled import SampledScheduler

SchedulerMaker = Callable[[int], Scheduler]

SCHEDULERS: Final[Mapping[str, SchedulerMaker]] = MappingProxyType(
    {
        "thrifty": lambda _: ThriftyScheduler(),
        "sampled": lambda seed: SampledScheduler(np.random.default_rng(seed)),
        "least-loaded": lambda _: LeastLoadedScheduler(),
        "reservation": lambda _: reservation_scheduler(),
    }
)


def scheduler(name: str, *, seed: int = 0) -> Scheduler:
    """Scheduler of a name.

    Args:
        seed: seed of random choices, for those that make any.
    """
    return SCHEDULERS[name](seed)
