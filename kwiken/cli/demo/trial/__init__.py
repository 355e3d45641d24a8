"""Trial of the demo: arms, measurements, spend and verdict."""

from __future__ import annotations

from kwiken.cli.demo.trial.arms import Trial, pass_time, run_blocks
from kwiken.cli.demo.trial.plans import Learned, Stretch, first_plan, learn, learn_copies
from kwiken.cli.demo.trial.verdict import Evidence, judge

__all__ = [
    "Evidence",
    "Learned",
    "Stretch",
    "Trial",
    "first_plan",
    "judge",
    "learn",
    "learn_copies",
    "pass_time",
    "run_blocks",
]
