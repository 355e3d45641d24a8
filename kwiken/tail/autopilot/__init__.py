"""Autopilot: proposes plans, tries them on a share of the requests, and keeps or takes them back. Pure."""

from __future__ import annotations

from kwiken.tail.autopilot.arms import ArmCounts as ArmCounts, bucket_of as bucket_of
from kwiken.tail.autopilot.autopilot import (
    CONTROL_SHARE as CONTROL_SHARE,
    FIRST_SHARE as FIRST_SHARE,
    MAX_LIMIT as MAX_LIMIT,
    MIN_LIMIT as MIN_LIMIT,
    PERSON as PERSON,
    TRIAL_SHARE as TRIAL_SHARE,
    Autopilot as Autopilot,
    Decision as Decision,
    Seen as Seen,
)
from kwiken.tail.autopilot.comparison import (
    BETTER as BETTER,
    OPEN as OPEN,
    WORSE as WORSE,
    Comparison as Comparison,
    compare as compare,
    look_points as look_points,
    requests_to_take_back as requests_to_take_back,
    requests_to_tell as requests_to_tell,
)
from kwiken.tail.autopilot.proposal import Proposal as Proposal, propose as propose
from kwiken.tail.autopilot.record import (
    ACTIONS as ACTIONS,
    MAX_REASON as MAX_REASON,
    MAX_RECORD as MAX_RECORD,
    Action as Action,
    AutopilotRecord as AutopilotRecord,
    Entry as Entry,
)
