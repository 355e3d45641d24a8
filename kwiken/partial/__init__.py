"""Partial answers: stop rules of fan-outs within a budget of lost utility."""

from __future__ import annotations

from kwiken.partial.loss_budget import (
    PartialSettings,
    PartialStudy,
    fan_outs,
    learnable,
    loss_weights,
    shortened,
    study_partial,
)
from kwiken.partial.loss_costs import sequential_costs
from kwiken.partial.loss_curve import FanOut
from kwiken.partial.responders import Responders
from kwiken.partial.rules_by_fan_out import fan_out_rules
from kwiken.partial.stop_rules import StopRule, apply_rule
from kwiken.partial.tuning import (
    Tuned,
    tune_fixed_timeout,
    tune_stop_rule,
    tune_time_then_fraction,
    tune_wait_for_fraction,
)

__all__ = [
    "FanOut",
    "PartialSettings",
    "PartialStudy",
    "Responders",
    "StopRule",
    "Tuned",
    "apply_rule",
    "fan_out_rules",
    "fan_outs",
    "learnable",
    "loss_weights",
    "sequential_costs",
    "shortened",
    "study_partial",
    "tune_fixed_timeout",
    "tune_stop_rule",
    "tune_time_then_fraction",
    "tune_wait_for_fraction",
]
