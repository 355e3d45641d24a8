"""Simulated fleets: scenarios on clusters too large to own, run under any scheduler of the allocator."""

from __future__ import annotations

from kwiken.lab.fleet.application_world import applications as applications
from kwiken.lab.fleet.behaviour import Behaviour as Behaviour, Knowledge as Knowledge
from kwiken.lab.fleet.catalogue import SCENARIOS as SCENARIOS
from kwiken.lab.fleet.comparison import run_of as run_of
from kwiken.lab.fleet.generators import (
    MAX_REPLICAS as MAX_REPLICAS,
    replica_rows as replica_rows,
    score_rows as score_rows,
    size_rows as size_rows,
)
from kwiken.lab.fleet.managers import CONTESTANTS as CONTESTANTS, simulate as simulate
from kwiken.lab.fleet.platforms import LOCAL as LOCAL, Platform as Platform, cloud as cloud
from kwiken.lab.fleet.simulator import FleetOutcome as FleetOutcome
from kwiken.lab.fleet.targets import random_reservations as random_reservations
from kwiken.lab.fleet.world import World as World
