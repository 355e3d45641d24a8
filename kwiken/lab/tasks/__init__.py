"""Tasks of milliseconds on units of one core: kinds, contention, and schedulers whose decisions take time."""

from __future__ import annotations

from kwiken.lab.tasks.kinds import (
    RESOURCES as RESOURCES,
    TaskKind as TaskKind,
    drawn_kinds as drawn_kinds,
    kind_of as kind_of,
)
from kwiken.lab.tasks.schedulers import POLICIES as POLICIES
from kwiken.lab.tasks.simulation import (
    TaskLoad as TaskLoad,
    TaskOutcomes as TaskOutcomes,
    simulate as simulate,
)
from kwiken.lab.tasks.units import UnitCluster as UnitCluster
