"""Diagnosis: which stages and replicas make slow requests slow, and which requests pay for a plan."""

from __future__ import annotations

from kwiken.tail.diagnosis.blamed_stages import Blame as Blame, blame as blame, characterise as characterise
from kwiken.tail.diagnosis.classes import ClassOutcome as ClassOutcome, by_class as by_class
from kwiken.tail.diagnosis.excess import ServiceExcess as ServiceExcess, SlowRequests as SlowRequests
from kwiken.tail.diagnosis.explanation import (
    Explanation as Explanation,
    StageStory as StageStory,
    explain as explain,
    explain_time as explain_time,
)
from kwiken.tail.diagnosis.heat_map import Heat as Heat, heat_maps as heat_maps
from kwiken.tail.diagnosis.slow_replicas import SlowReplica as SlowReplica
from kwiken.tail.diagnosis.suspect import Suspect as Suspect
