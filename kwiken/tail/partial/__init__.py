"""Partial answers: stop rules of fan-outs within a budget of lost utility."""

from __future__ import annotations

from kwiken.tail.partial.loss_budget import (
    PartialSettings as PartialSettings,
    PartialStudy as PartialStudy,
    fan_outs as fan_outs,
    loss_weights as loss_weights,
    sequential_costs as sequential_costs,
    shortened as shortened,
    study_partial as study_partial,
)
from kwiken.tail.partial.responders import Responders as Responders
from kwiken.tail.partial.stop_rules import StopRule as StopRule, apply_rule as apply_rule
from kwiken.tail.partial.tuning import (
    Solver as Solver,
    Tuned as Tuned,
    check_loss as check_loss,
    judge_rule as judge_rule,
    progress_grid as progress_grid,
    tune_fixed_timeout as tune_fixed_timeout,
    tune_stop_rule as tune_stop_rule,
    tune_time_then_fraction as tune_time_then_fraction,
    tune_wait_for_fraction as tune_wait_for_fraction,
)
