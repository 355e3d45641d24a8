"""Load model: a profile decomposed into work and waiting, and simulated at another load."""

from __future__ import annotations

from kwiken.queueing.load.decompose import QueueSettings, known_utilisation, load_model
from kwiken.queueing.load.guard import QUIET, Guard, guards, plan_hurts_above, tail_hurts
from kwiken.queueing.load.loaded_profile import profile_under_load
from kwiken.queueing.load.looks import CopiesAtLoad
from kwiken.queueing.load.simulate import LoadSimulation, policies_of, reissuing, simulate_load
from kwiken.queueing.load.stage_model import LoadModel

__all__ = [
    "QUIET",
    "CopiesAtLoad",
    "Guard",
    "LoadModel",
    "LoadSimulation",
    "QueueSettings",
    "guards",
    "known_utilisation",
    "load_model",
    "plan_hurts_above",
    "policies_of",
    "profile_under_load",
    "reissuing",
    "simulate_load",
    "tail_hurts",
]
