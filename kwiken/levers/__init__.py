"""Levers beside a stage's own reissues: partial answers, catch-up, and several levers at once.

Pure: recorded latencies in, rules and policies out (Kwiken sections 5.3 to 5.5).
"""

from __future__ import annotations

from kwiken.levers._catch_up import Threads, hurry, prioritise
from kwiken.levers._compare_rules import RuleVerdict, compare_stop_rules
from kwiken.levers._global_reissue import GlobalReissue, run_global_reissue, tune_global_reissue
from kwiken.levers._lagrange import Shares, two_budgets
from kwiken.levers._late import LateStudy, study_catch_up
from kwiken.levers._learned_wait import LearnedWait, tune_learned_wait
from kwiken.levers._loss_curve import FanOut, LossCurve, loss_curve
from kwiken.levers._partial import PartialSettings, PartialStudy, fan_outs, shortened, study_partial
from kwiken.levers._responders import Responders
from kwiken.levers._several import WAYS, LeverPlanner, Levers, LeverVerdict
from kwiken.levers._stop_rule import (
    FixedTimeout,
    Rule,
    StopRule,
    TimeThenFraction,
    WaitForFraction,
    apply_rule,
)
from kwiken.levers._surface import Surface, surface
from kwiken.levers._tuning import (
    Tuned,
    tune_fixed_timeout,
    tune_stop_rule,
    tune_stop_rules,
    tune_time_then_fraction,
    tune_wait_for_fraction,
)
from kwiken.levers._utility import independent_costs, sequential_costs

__all__ = [
    "WAYS",
    "FanOut",
    "FixedTimeout",
    "GlobalReissue",
    "LateStudy",
    "LearnedWait",
    "LeverPlanner",
    "LeverVerdict",
    "Levers",
    "LossCurve",
    "PartialSettings",
    "PartialStudy",
    "Responders",
    "Rule",
    "RuleVerdict",
    "Shares",
    "StopRule",
    "Surface",
    "Threads",
    "TimeThenFraction",
    "Tuned",
    "WaitForFraction",
    "apply_rule",
    "compare_stop_rules",
    "fan_outs",
    "hurry",
    "independent_costs",
    "loss_curve",
    "prioritise",
    "run_global_reissue",
    "sequential_costs",
    "shortened",
    "study_catch_up",
    "study_partial",
    "surface",
    "tune_fixed_timeout",
    "tune_global_reissue",
    "tune_learned_wait",
    "tune_stop_rule",
    "tune_stop_rules",
    "tune_time_then_fraction",
    "tune_wait_for_fraction",
    "two_budgets",
]
