"""Adaptation: keeps targets while load and nodes change: scales replicas up, then out, then moves them."""

from __future__ import annotations

from kwiken.adaptation.actions import Action, Resize, Revision, Shortage, Start, Stop
from kwiken.adaptation.adaptation import Adaptation
from kwiken.adaptation.watch import WINDOW_S, Observation

__all__ = [
    "WINDOW_S",
    "Action",
    "Adaptation",
    "Observation",
    "Resize",
    "Revision",
    "Shortage",
    "Start",
    "Stop",
]
