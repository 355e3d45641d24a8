"""Autopilot: proposes plans, tries them on a share of the requests, and keeps or takes them back. Pure."""

from __future__ import annotations

from kwiken.tail.autopilot.arms import ArmCounts as ArmCounts
from kwiken.tail.autopilot.autopilot import (
    CONTROL_SHARE as CONTROL_SHARE,
    Autopilot as Autopilot,
    Decision as Decision,
    Seen as Seen,
)
from kwiken.tail.autopilot.proposal import PlanProposal as PlanProposal, propose as propose
from kwiken.tail.autopilot.record import (
    ACTIONS as ACTIONS,
    MAX_REASON as MAX_REASON,
    MAX_RECORD as MAX_RECORD,
    AutopilotRecord as AutopilotRecord,
    LoggedDecision as LoggedDecision,
)
