"""Schedulers behind one protocol: Quasar's and Paragon's, baselines, and an exact one for small clusters."""

from __future__ import annotations

from kwiken.placement.schedulers.baselines import reservation
from kwiken.placement.schedulers.exact import Optimum, solve
from kwiken.placement.schedulers.names import SCHEDULERS, scheduler

__all__ = ["SCHEDULERS", "Optimum", "reservation", "scheduler", "solve"]
