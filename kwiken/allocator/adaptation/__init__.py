"""Adaptation: keeps targets while load and nodes change: scales replicas up, then out, then moves them."""

from __future__ import annotations

from kwiken.allocator.adaptation.actions import (
    Action as Action,
    Resize as Resize,
    Revision as Revision,
    Shortage as Shortage,
    Start as Start,
    Stop as Stop,
)
from kwiken.allocator.adaptation.adaptation import Adaptation as Adaptation
from kwiken.allocator.adaptation.job_room import JobRoom as JobRoom, NodeRoom as NodeRoom
from kwiken.allocator.adaptation.live_repacking import (
    LiveRepacking as LiveRepacking,
    LiveRepackSettings as LiveRepackSettings,
)
from kwiken.allocator.adaptation.load_outlook import LoadOutlook as LoadOutlook
from kwiken.allocator.adaptation.watch import WINDOW_S as WINDOW_S, Observation as Observation
