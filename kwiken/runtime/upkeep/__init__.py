"""Upkeep of running clusters: measures, lets an adaptation decide, and carries out what it decides."""

from __future__ import annotations

from kwiken.runtime.upkeep.assignment import Assignment as Assignment
from kwiken.runtime.upkeep.jobs import JobRunner as JobRunner
from kwiken.runtime.upkeep.node_repacker import NodeRepacker as NodeRepacker
from kwiken.runtime.upkeep.on_nodes import OnNodes as OnNodes, clusters_on_nodes as clusters_on_nodes
from kwiken.runtime.upkeep.rental_journal import RentalJournal as RentalJournal
from kwiken.runtime.upkeep.rented_nodes import RentedNodes as RentedNodes
from kwiken.runtime.upkeep.upkeep import Upkeep as Upkeep
