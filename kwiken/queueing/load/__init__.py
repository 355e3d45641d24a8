"""Load model: a profile decomposed into work and waiting, and simulated at another load."""

from __future__ import annotations

from kwiken.queueing.load.decompose import load_model, measured_utilisation
from kwiken.queueing.load.guard import QUIET, guards, plan_hurts_above
from kwiken.queueing.load.simulate import LoadSimulation, policies_of, simulate_load
from kwiken.queueing.load.stage_model import LoadModel
from kwiken.queueing.load.under_load import PlanUnderLoad, plan_under_load

__all__ = [
    "QUIET",
    "LoadModel",
    "LoadSimulation",
    "PlanUnderLoad",
    "guards",
    "load_model",
    "measured_utilisation",
    "plan_hurts_above",
    "plan_under_load",
    "policies_of",
    "simulate_load",
]
