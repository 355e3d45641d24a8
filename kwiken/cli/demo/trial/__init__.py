"""Trial of the demo: arms, measurements, spend and verdict."""

from __future__ import annotations

from kwiken.cli.demo.trial.arms import Trial, pass_time, run_blocks
from kwiken.cli.demo.trial.plans import Learned, learn
from kwiken.cli.demo.trial.verdict import Evidence, judge

__all__ = ["Evidence", "Learned", "Trial", "judge", "learn", "pass_time", "run_blocks"]
