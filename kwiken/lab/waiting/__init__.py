"""Lined fleet: jobs that wait for nodes of the quality that they need, on a fleet that punishes haste."""

from __future__ import annotations

from kwiken.lab.waiting.ablations import changed_world as changed_world
from kwiken.lab.waiting.head_of_line import borrowing_waits as borrowing_waits
from kwiken.lab.waiting.managers import LINED_MANAGERS as LINED_MANAGERS
from kwiken.lab.waiting.outcome import LinedOutcome as LinedOutcome
from kwiken.lab.waiting.rules import ABLATIONS as ABLATIONS
from kwiken.lab.waiting.scenarios import LINED_SCENARIOS as LINED_SCENARIOS
from kwiken.lab.waiting.simulation import LinedSimulation as LinedSimulation
