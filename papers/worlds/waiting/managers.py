"""Managers that are compared on the lined fleet: scheduler, knowledge, and lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from kwiken.allocator.placement.order import Scheduler
from papers.worlds.fleet.behaviour import Knowledge
from papers.worlds.schedulers.names import scheduler
from papers.worlds.schedulers.paragon import ParagonScheduler
from papers.worlds.waiting.lines.budgets import Slack
from papers.worlds.waiting.lines.quality_classes import CLASSES
from papers.worlds.waiting.lines.settings import LineOrder, SwitchRule
from papers.worlds.waiting.rules import OVERSOLD


class Quality(StrEnum):
    """Way of scoring qualities and of cutting them into classes.

    Attributes:
        PRESSURE: sums of pressure in classes of equal width, as published.
        QUANTILES: sums of pressure in classes that equally many past applications belong to.
        SUITABLE: how few nodes meet a job's target, in classes that equally many past applications belong to.
    """

    PRESSURE = "pressure"
    QUANTILES = "quantiles"
    SUITABLE = "suitable"


@dataclass(frozen=True)
class LinedManager:
    """A manager by its parts.

    Attributes:
        scheduler: name of a scheduler of the allocator.
        knowledge: what is known of jobs.
        waits: whether jobs wait for a node that suits them; else the first job of one line takes any node.
        look_ahead: jobs of a line that are tried when its head does not fit.
        oversold: number of cores that are sold for each that a node has.
        blind: whether memory is not looked at.
    """

    scheduler: str = "paragon"
    knowledge: Knowledge = Knowledge.PUBLISHED
    waits: bool = False
    classes: int = 1
    quality: Quality = Quality.PRESSURE
    rule: SwitchRule = SwitchRule.NEVER
    order: LineOrder = LineOrder.ARRIVAL
    slack: Slack = Slack.STRICT
    priorities: bool = False
    look_ahead: int = 1
    oversold: float = 1.0
    blind: bool = False

    def choosing(self) -> tuple[Scheduler, Scheduler]:
        """Scheduler inside a pool, and the one for a job that takes any node."""
        anywhere = scheduler(self.scheduler)
        return (ParagonScheduler(violates=False) if self.waits else anywhere), anywhere


ARQ: Final = LinedManager(waits=True, classes=CLASSES, rule=SwitchRule.PUBLISHED, look_ahead=8)
BETTER: Final = replace(ARQ, quality=Quality.SUITABLE, rule=SwitchRule.OPTIMAL)

LINED_MANAGERS: Final[Mapping[str, LinedManager]] = MappingProxyType(
    {
        "paragon": LinedManager(),
        "paragon, true scores": LinedManager(knowledge=Knowledge.TRUE),
        "paragon, cores shared": LinedManager(oversold=OVERSOLD),
        "paragon, with margin": LinedManager("paragon-margin"),
        "interference only": LinedManager("interference-only"),
        "heterogeneity only": LinedManager("heterogeneity-only"),
        "least loaded": LinedManager("least-loaded", oversold=OVERSOLD, blind=True),
        "least loaded, reservations": LinedManager("least-loaded"),
        "arq": ARQ,
        "arq, true scores": replace(ARQ, knowledge=Knowledge.TRUE),
        "arq, printed slack": replace(ARQ, slack=Slack.PRINTED),
        "arq, never switches": replace(ARQ, rule=SwitchRule.NEVER),
        "arq, switches at once": replace(ARQ, rule=SwitchRule.AT_ONCE),
        "arq, optimal stopping": replace(ARQ, rule=SwitchRule.OPTIMAL),
        "arq, quantile lines": replace(ARQ, quality=Quality.QUANTILES),
        "one line that waits": replace(ARQ, classes=1),
        "suitable lines": replace(BETTER, rule=SwitchRule.PUBLISHED),
        "suitable lines, optimal stopping": BETTER,
        "arq, shortest first": replace(ARQ, order=LineOrder.SHORTEST),
        "arq, priorities": replace(ARQ, priorities=True),
        **{f"arq, {count} lines": replace(ARQ, classes=count) for count in (1, 2, 5, 20, 50)},
    }
)
