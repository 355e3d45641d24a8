"""Trial of the demo: arms, measurements, spend and verdict."""

from __future__ import annotations

from kwiken.apps.demo.trial.arms import ArmTrial as ArmTrial, pass_time as pass_time, run_blocks as run_blocks
from kwiken.apps.demo.trial.plans import (
    DemoStretch as DemoStretch,
    Learned as Learned,
    first_plan as first_plan,
    learn as learn,
    learn_copies as learn_copies,
)
from kwiken.apps.demo.trial.trial_result import TrialData as TrialData
from kwiken.apps.demo.trial.verdict import judge as judge
