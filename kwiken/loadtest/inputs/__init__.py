"""Inputs of a load run: settings, arrival schedule and request bodies, read and checked before it starts."""

from __future__ import annotations

from kwiken.loadtest.inputs.arrivals import Arrivals
from kwiken.loadtest.inputs.queries import Queries
from kwiken.loadtest.inputs.settings import LoadSettings, Prepared, Target, parse_target, prepare

__all__ = ["Arrivals", "LoadSettings", "Prepared", "Queries", "Target", "parse_target", "prepare"]
