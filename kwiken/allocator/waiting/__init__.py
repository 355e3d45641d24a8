"""Waiting: lines of jobs by the quality of node that they need, budgets of waiting, changes of line (ARQ).

Pure: the clock is handed in. Nothing here needs NumPy, since a gateway imports it.
"""

from __future__ import annotations

from kwiken.allocator.waiting.budgets import (
    Slack as Slack,
    slack_s as slack_s,
    waiting_budget_s as waiting_budget_s,
)
from kwiken.allocator.waiting.busy_times import BusyTimes as BusyTimes
from kwiken.allocator.waiting.chances import (
    chance_of_releases as chance_of_releases,
    free_chance as free_chance,
    stationary_chance as stationary_chance,
    time_for as time_for,
)
from kwiken.allocator.waiting.distributions import (
    BusyFamily as BusyFamily,
    BusyTime as BusyTime,
    empirical as empirical,
    exponential as exponential,
    fitted as fitted,
    normal as normal,
)
from kwiken.allocator.waiting.document import (
    LINES_VERSION as LINES_VERSION,
    LinedJob as LinedJob,
    LinesDocument as LinesDocument,
    PlannedLine as PlannedLine,
)
from kwiken.allocator.waiting.line_entries import LineState as LineState
from kwiken.allocator.waiting.lines import Find as Find, WaitingLines as WaitingLines
from kwiken.allocator.waiting.quality_classes import (
    CLASSES as CLASSES,
    QualityClasses as QualityClasses,
    equal_classes as equal_classes,
    quantile_classes as quantile_classes,
)
from kwiken.allocator.waiting.settings import (
    BudgetClock as BudgetClock,
    LineMove as LineMove,
    LineOrder as LineOrder,
    LineSettings as LineSettings,
    LineStart as LineStart,
    MoveReason as MoveReason,
    SlotOffer as SlotOffer,
    SwitchRule as SwitchRule,
    WaitingJob as WaitingJob,
)
from kwiken.allocator.waiting.switching import (
    LineProspect as LineProspect,
    best_value as best_value,
    stopping_values as stopping_values,
)
