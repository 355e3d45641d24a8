"""Managers that are compared: scheduler, knowledge of workloads, and reaction to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kwiken.allocator.placement.headroom import SOURCE_CAUTION, Caution
from kwiken.allocator.placement.order import Scheduler
from papers.worlds.fleet.behaviour import ENTRIES, ENTRIES_AGAIN, Knowledge
from papers.worlds.fleet.simulator.manager import DETECTION_S, Manager
from papers.worlds.fleet.simulator.outcome import FleetOutcome
from papers.worlds.fleet.simulator.simulation import FleetSimulation
from papers.worlds.fleet.world import World
from papers.worlds.schedulers.names import scheduler


@dataclass(frozen=True)
class Contestant:
    """A manager by its parts.

    Attributes:
        follows: whether deviations are acted on after placement.
        chooses_sizes: whether it chooses sizes and numbers of replicas; the others place what users reserve.
        detection_s: time for which a deviation must last before it is acted on, in seconds.
    """

    scheduler: str
    knowledge: Knowledge = Knowledge.PUBLISHED
    caution: Caution = SOURCE_CAUTION
    follows: bool = False
    chooses_sizes: bool = False
    detection_s: float = DETECTION_S

    def manager(self, name: str, seed: int) -> Manager:
        """The manager of one run."""
        chosen: Scheduler = scheduler(self.scheduler, seed=seed)
        return Manager(name, chosen, self.caution, self.follows, self.chooses_sizes, self.detection_s)


QUASAR_DETECTION_S: Final = 15.0  # three samples in a row, one each 5 s (Quasar section 3.8)

# As the sources describe them: Paragon and Quasar watch their workloads, the others do not.
CONTESTANTS: Final[Mapping[str, Contestant]] = MappingProxyType(
    {
        "paragon, all known": Contestant("paragon", Knowledge.TRUE, follows=True),
        "paragon, chosen entries": Contestant("paragon", Knowledge.CHOSEN, follows=True),
        "paragon": Contestant("paragon", follows=True),
        "paragon, with margin": Contestant("paragon-margin", follows=True),
        # Not of the sources: what placement alone is worth.
        "paragon, placement only": Contestant("paragon"),
        "paragon, chosen entries, placement only": Contestant("paragon", Knowledge.CHOSEN),
        "paragon, with margin, placement only": Contestant("paragon-margin"),
        "paragon-statistical": Contestant("paragon-statistical", follows=True),
        "interference-only": Contestant("interference-only"),
        "heterogeneity-only": Contestant("heterogeneity-only"),
        "least-loaded": Contestant("least-loaded", Knowledge.TRUE),
        "quasar, all known": Contestant(
            "quasar",
            Knowledge.TRUE,
            follows=True,
            chooses_sizes=True,
            detection_s=QUASAR_DETECTION_S,
        ),
        "quasar": Contestant("quasar", follows=True, chooses_sizes=True, detection_s=QUASAR_DETECTION_S),
        "quasar, without adaptation": Contestant("quasar", chooses_sizes=True),
        "thrifty": Contestant(
            "thrifty",
            Knowledge.CHOSEN,
            Caution(),
            follows=True,
            chooses_sizes=True,
            detection_s=QUASAR_DETECTION_S,
        ),
    }
)


def simulate(world: World, name: str) -> FleetOutcome:
    """Run a world under one of the `CONTESTANTS`."""
    contestant = CONTESTANTS[name]
    manager = contestant.manager(name, world.seed)
    first = world.profiles(contestant.knowledge, ENTRIES)
    again = world.profiles(contestant.knowledge, ENTRIES_AGAIN) if manager.measures_again else first
    return FleetSimulation(world.scenario, first, manager, again).run()
