"""Schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.allocator.placement.order import Scheduler
from kwiken.allocator.schedulers.baselines import LeastLoadedScheduler, reservation_scheduler
from kwiken.allocator.schedulers.default_scheduler import QuasarScheduler, ThriftyScheduler
from kwiken.allocator.schedulers.exact import ExactScheduler
from kwiken.allocator.schedulers.nearest_server import NearestServerScheduler
from kwiken.allocator.schedulers.paragon import MARGIN, ParagonScheduler, StatisticalScheduler
from kwiken.allocator.schedulers.sampled import SampledScheduler

_Maker = Callable[[int], Scheduler]

SCHEDULERS: Final[Mapping[str, _Maker]] = MappingProxyType(
    {
        "thrifty": lambda _: ThriftyScheduler(),
        "quasar": lambda _: QuasarScheduler(),
        "paragon": lambda _: ParagonScheduler(),
        "paragon-margin": lambda _: ParagonScheduler(margin=MARGIN, name="paragon-margin"),
        "paragon-statistical": lambda seed: StatisticalScheduler(np.random.default_rng(seed)),
        "sampled": lambda seed: SampledScheduler(np.random.default_rng(seed)),
        "interference-only": lambda _: ParagonScheduler(by_class=False, name="interference-only"),
        "heterogeneity-only": lambda _: ParagonScheduler(by_contention=False, name="heterogeneity-only"),
        "least-loaded": lambda _: LeastLoadedScheduler(),
        "reservation": lambda _: reservation_scheduler(),
        "hashed": NearestServerScheduler,
        "exact": lambda _: ExactScheduler(),
    }
)


def scheduler(name: str, *, seed: int = 0) -> Scheduler:
    """Scheduler of a name.

    Args:
        seed: seed of random choices, for those that make any.
    """
    return SCHEDULERS[name](seed)
