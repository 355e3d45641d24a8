"""Schedulers by name: those of `kwiken place`, and those of publications and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.allocator.placement.order import Scheduler
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import Rank, by_quality, walk
from kwiken.allocator.schedulers import names
from kwiken.allocator.schedulers.names import SchedulerMaker
from papers.worlds.schedulers.exact import ExactScheduler
from papers.worlds.schedulers.nearest_server import NearestServerScheduler
from papers.worlds.schedulers.paragon import ParagonScheduler
from papers.worlds.schedulers.statistical import StatisticalScheduler

MARGIN: Final = 0.05  # of pressure, a share: what predictions of scores are off by on average


@dataclass(frozen=True)
class QuasarScheduler:
    """Greedy joint allocation and assignment (Quasar section 3.7)."""

    rank: Rank = by_quality
    name: str = "quasar"

    def place(self, sizing: Sizing) -> None:
        """Take the best-ranked nodes until the target is met, then trim."""
        walk(sizing, self.rank)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the target is met as surely as asked."""
        return sizing.forecast().met


SCHEDULERS: Final[Mapping[str, SchedulerMaker]] = MappingProxyType(
    {
        **names.SCHEDULERS,
        "paragon": lambda _: ParagonScheduler(),
        "quasar": lambda _: QuasarScheduler(),
        "paragon-margin": lambda _: ParagonScheduler(margin=MARGIN, name="paragon-margin"),
        "paragon-statistical": lambda seed: StatisticalScheduler(np.random.default_rng(seed)),
        "interference-only": lambda _: ParagonScheduler(by_class=False, name="interference-only"),
        "heterogeneity-only": lambda _: ParagonScheduler(by_contention=False, name="heterogeneity-only"),
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
