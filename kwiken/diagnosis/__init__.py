"""Diagnosis: which stages and replicas make slow requests slow, and which requests pay for a plan."""

from __future__ import annotations

from kwiken.diagnosis.blamed_stages import Blame, blame, characterise
from kwiken.diagnosis.classes import ClassOutcome, by_class
from kwiken.diagnosis.excess import ServiceExcess, SlowRequests
from kwiken.diagnosis.explanation import Explanation, StageStory, explain
from kwiken.diagnosis.heat_map import Heat, heat_maps

__all__ = [
    "Blame",
    "ClassOutcome",
    "Explanation",
    "Heat",
    "ServiceExcess",
    "SlowRequests",
    "StageStory",
    "blame",
    "by_class",
    "characterise",
    "explain",
    "heat_maps",
]
