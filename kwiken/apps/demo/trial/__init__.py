"""Trial of the demo: arms, measurements, spend and verdict."""

from __future__ import annotations

from kwiken.apps.demo.trial.arms import Trial as Trial, pass_time as pass_time, run_blocks as run_blocks
from kwiken.apps.demo.trial.plans import (
    Learned as Learned,
    Stretch as Stretch,
    first_plan as first_plan,
    learn as learn,
    learn_copies as learn_copies,
)
from kwiken.apps.demo.trial.verdict import Evidence as Evidence, judge as judge
